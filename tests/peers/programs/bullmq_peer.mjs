import { openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";

const { Queue, Worker } = createRequire(process.env.PEER_FOLDER + "/x.js")("bullmq");
const { hostname, port } = new URL(process.env.PEER_REDIS_URL);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true };
const [how, count, rate] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const now = () => (performance.timeOrigin + performance.now()) / 1000;

if (how === "work") {
  const record = openSync(process.env.PEER_RECORD, "a");
  const line = Buffer.alloc(16);
  const run = async (job) => {
    line.writeBigInt64LE(BigInt(job.data));
    line.writeDoubleLE(now(), 8);
    writeSync(record, line);
  };
  new Worker("q", run, { connection, concurrency: Number(process.env.PEER_SLOTS ?? 100) });
} else {
  const queue = new Queue("q", { connection });
  await queue.waitUntilReady();
  const single = (number) => queue.add("noop", number, options);
  const [beganAt, began] = [now(), performance.now()];
  let found;
  if (how === "pace") {
    found = [];
    for (let number = 0; number < count; number++) {
      await new Promise((go) => setTimeout(go, began + (number * 1000) / rate - performance.now()));
      found.push(now());
      await single(number);
    }
  } else {
    if (how === "bulk") {
      for (let first = 0; first < count; first += 500) {
        const numbers = Array.from({ length: Math.min(500, count - first) }, (_, at) => first + at);
        await queue.addBulk(numbers.map((number) => ({ name: "noop", data: number, opts: options })));
      }
    } else if (how === "together") {
      let next = 0;
      const some = async () => {
        while (next < count) await single(next++);
      };
      await Promise.all(Array.from({ length: 50 }, some));
    } else {
      for (let number = 0; number < count; number++) await single(number);
    }
    found = [beganAt, (count * 1000) / (performance.now() - began)];
  }
  console.log(JSON.stringify(found));
  await queue.close();
}
