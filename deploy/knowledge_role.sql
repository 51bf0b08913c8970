-- A role that owns only the tables of knowledge bases, in a schema of its own. Existing tables are handed over.
-- Run it as a superuser in the database of the host, while the host is stopped. It can run again.
--   KNOWLEDGE_PASSWORD=… psql -d bollard -f knowledge_role.sql
\set ON_ERROR_STOP on
\getenv password KNOWLEDGE_PASSWORD
\if :{?role}
\else
  \set role bollard_knowledge
\endif

SELECT format('CREATE ROLE %I LOGIN', :'role')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec

-- Without a password the server decides by other means, such as the user of the system.
\if :{?password}
ALTER ROLE :"role" PASSWORD :'password';
\endif

CREATE SCHEMA IF NOT EXISTS :"role" AUTHORIZATION :"role";

-- Its schema has its name, so it is the first of its search path.
SELECT format('ALTER TABLE %I.%I OWNER TO %I', n.nspname, c.relname, :'role')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relname ~ '^knowledge_' AND n.nspname <> :'role' \gexec

SELECT format('ALTER TABLE %I.%I SET SCHEMA %I', n.nspname, c.relname, :'role')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relname ~ '^knowledge_' AND n.nspname <> :'role' \gexec
