"""Texts as people and models write them, to count the tokens of: English, Chinese, and code."""

ENGLISH = """
The harbour office opens at seven, but the first ferry leaves at half past six, so whoever wants to travel early buys a
ticket the evening before. Last winter the timetable was changed twice because the old pier had to be repaired. People
complained, of course; they always do when something that has worked for thirty years is suddenly different. The new
pier is wider, has a roof, and two machines that take cards and coins. On Saturdays there are four extra crossings.

Hi Maria, thanks for sending the draft so quickly! I went through it on the train and only have three remarks. First,
the introduction promises a comparison of five methods, while the table shows four. Second, figure 2 is hard to read
when it is printed in black and white. Third, could you add a sentence about the measurements from 12 March 2024? We
took 1,480 samples that day, and reviewers will ask. Otherwise it looks great. Shall we talk on Thursday at 15:30?

Question: my order 88-20261103 has not arrived yet. The tracking page has said "in transit" for nine days. I have
already moved to a new flat, so please send the replacement to 14 Mill Road, not to the old address. I do not want a
refund. Answer: I am sorry about the delay. I have asked the carrier to look for the parcel, and a replacement will be
shipped tomorrow morning. You will receive a confirmation by e-mail; if the first parcel turns up, simply return it.

Photosynthesis converts carbon dioxide and water into sugar and oxygen. Chlorophyll absorbs mostly red and blue light,
which is why leaves appear green. The reactions that depend on light take place in the membranes of the thylakoids; the
others, which build carbohydrates, happen in the stroma. Temperature, humidity and the concentration of carbon dioxide
determine how quickly a plant grows. Responsibility for the greenhouse experiment lies with the botanical institute.
"""

CHINESE = """
清晨的阳光透过窗户照进房间，孩子们已经起床准备上学了。厨房里飘来豆浆和油条的香味，奶奶正在把早餐端到桌上。
街上的行人渐渐多了起来，公共汽车一辆接着一辆，新的一天就这样开始了。

你好，请问你们的退货政策是什么？我上周买了一双鞋，尺码不合适，想换大一号的。
可以的，七天之内都可以免费换货。请把订单号发给我，我马上帮您查一下。
订单号是 20261103-88，新的收货地址是上海市浦东新区世纪大道 100 号，不要寄到以前的地址。
好的，已经为您登记，明天上午发出，大概三天可以收到。如果还有其他问题，随时联系我们。

会议记录：一、下个版本在三月十五日发布，由张伟负责测试；二、文档需要同时提供中文和英文；三、数据库升级的方案还没有决定，
下周二再讨论。大家同意把性能目标定为每秒五千个请求，超过这个数字就需要增加服务器。李娜提醒，用户的密码和手机号码不能写进日志。

光合作用是植物利用阳光把二氧化碳和水变成有机物，同时放出氧气的过程。叶绿素主要吸收红光和蓝光，所以叶子看起来是绿色的。
温度、水分和光照都会影响植物生长的速度。科学家希望通过研究这个过程，提高农业的产量，也为新能源的开发找到方法。

请记住：我的生日是六月二十一日，我不吃花生，喜欢喝茶。下次开会的时候，麻烦提前一个小时提醒我，并且把上次的文件一起发过来。
"""

CODE = '''
import asyncio
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Window:
    """A bounded window of results."""

    limit: int = 256
    pending: list[int] = field(default_factory=list)

    def take(self, sequence: int) -> "Window":
        if len(self.pending) >= self.limit:
            raise ValueError(f"more than {self.limit} results are unanswered")
        return Window(self.limit, [*self.pending, sequence])


async def read_all(reader: asyncio.StreamReader, size: int = 65536) -> bytes:
    pieces = []
    while piece := await reader.read(size):
        pieces.append(piece)
    return b"".join(pieces)

export async function follow(url, { signal, onEvent }) {
  const response = await fetch(url, { headers: { accept: "text/event-stream" }, signal });
  if (!response.ok) {
    throw new Error(`the server answered ${response.status}`);
  }
  for await (const chunk of response.body) {
    for (const line of decoder.decode(chunk, { stream: true }).split("\\n")) {
      if (line.startsWith("data: ")) onEvent(JSON.parse(line.slice(6)));
    }
  }
}

SELECT u.id, u.name, COUNT(o.id) AS orders, SUM(o.total) AS spent
FROM users AS u LEFT JOIN orders AS o ON o.user_id = u.id
WHERE u.created_at >= '2024-01-01' AND o.status <> 'cancelled'
GROUP BY u.id, u.name HAVING COUNT(o.id) > 3 ORDER BY spent DESC LIMIT 50;

{"model": "default", "messages": [{"role": "user", "content": "hello"}], "stream": true, "temperature": 0.2,
 "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]}
'''
