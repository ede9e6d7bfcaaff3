// Computes in work() and rest() for a second and writes its own CPU profile. Usage: node computes.js FILE, NODE_PATH set.
const fs = require("fs");
const pprof = require("@datadog/pprof");

function work(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += Math.sqrt(i) % 3;
  return sum;
}

function rest(count) {
  let text = "";
  for (let i = 0; i < count; i++) text += i;
  return text.length;
}

async function main() {
  pprof.time.start({ durationMillis: 1000, intervalMicros: 1000 });
  const end = Date.now() + 1000;
  while (Date.now() < end) {
    work(300000);
    rest(20000);
  }
  fs.writeFileSync(process.argv[2], await pprof.encode(pprof.time.stop()));
}

main();
