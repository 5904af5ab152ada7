import { ReflexionPlugin } from "./plugin.mjs"
const hooks = await ReflexionPlugin({ directory: process.argv[2] })
const run = async (session, command, exit, output) => {
  const out = { title: "", output, metadata: { exit } }
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: session, callID: "c" }, { args: { command } })
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: session, callID: "c", args: { command } }, out)
  return out.output
}
const said = [await run("a", "npm run build", 1, 'npm error Missing script: "build"')]
said.push(await run("a", "pnpm run build", 0, "ok"))
await hooks["chat.message"]({ sessionID: "b" }, { parts: [{ type: "text", text: "npm build please" }] })
const system = { system: [] }
await hooks["experimental.chat.system.transform"]({ sessionID: "b" }, system)
said.push(system.system.join(""), await run("b", "npm run build", 1, 'npm error Missing script: "build"'))
await hooks["chat.message"](undefined, undefined).catch(() => said.push("threw"))
console.log(JSON.stringify(said))
