/** A zip with one file, stored without compression. */
export function zipOf(name: string, content: Uint8Array): Blob {
  const named = new TextEncoder().encode(name);
  const sum = crc32(content);
  const about = (view: DataView, at: number): void => {
    view.setUint16(at, 20, true); // needed version
    view.setUint16(at + 2, 0x0800, true); // the name is UTF-8
    view.setUint16(at + 8, DAY, true); // 1980-01-01: the digest of the plugin does not depend on the time
    view.setUint32(at + 10, sum, true);
    view.setUint32(at + 14, content.length, true);
    view.setUint32(at + 18, content.length, true);
    view.setUint16(at + 22, named.length, true);
  };
  const local = part(30, 0x04034b50, (view) => about(view, 4));
  const central = part(46, 0x02014b50, (view) => about(view, 6));
  const end = part(22, 0x06054b50, (view) => {
    view.setUint16(8, 1, true);
    view.setUint16(10, 1, true);
    view.setUint32(12, central.byteLength + named.length, true);
    view.setUint32(16, local.byteLength + named.length + content.length, true);
  });
  return new Blob([local, named, content as Uint8Array<ArrayBuffer>, central, named, end], { type: "application/zip" });
}

const DAY = 0x0021;

function part(size: number, signature: number, fill: (view: DataView) => void): ArrayBuffer {
  const bytes = new ArrayBuffer(size);
  const view = new DataView(bytes);
  view.setUint32(0, signature, true);
  fill(view);
  return bytes;
}

function crc32(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}
