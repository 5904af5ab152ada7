// reflexion plugin: tells the memory loop of commands and prompts, and the agent what it recalls.
// Whatever goes wrong here is silent: opencode goes on as if there were no plugin.
import { spawn } from "node:child_process"

const COMMAND = ["reflexion"]
const LIMIT = 3000

function tell(payload) {
  return new Promise((resolve) => {
    try {
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", "--agent", "opencode"], {
        stdio: ["pipe", "pipe", "ignore"],
      })
      let said = ""
      const timer = setTimeout(() => {
        child.kill()
        resolve("")
      }, LIMIT)
      const end = () => {
        clearTimeout(timer)
        try {
          resolve(said ? JSON.parse(said).block || "" : "")
        } catch {
          resolve("")
        }
      }
      child.on("error", end)
      child.stdin.on("error", () => {})
      child.stdout.on("data", (part) => (said += part))
      child.on("close", end)
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })
}

export const ReflexionPlugin = async ({ directory, worktree }) => {
  const waiting = new Map()
  const common = (event, sessionID) => ({
    hook_event_name: event,
    session_id: sessionID || "",
    cwd: directory || worktree || "",
  })
  const isShell = (input) => input && input.tool === "bash"
  return {
    "chat.message": async (input, output) => {
      const parts = (output && output.parts) || []
      const prompt = parts.map((part) => (part && part.type === "text" && part.text) || "").join("\n")
      if (!prompt.trim()) return
      const block = await tell({ ...common("chat.message", input.sessionID), prompt })
      if (block) waiting.set(input.sessionID, block)
    },
    "experimental.chat.system.transform": async (input, output) => {
      const block = waiting.get(input.sessionID)
      if (block && output && Array.isArray(output.system)) {
        output.system.push(block)
        waiting.delete(input.sessionID)
      }
    },
    "tool.execute.before": async (input, output) => {
      if (!isShell(input)) return
      const args = (output && output.args) || {}
      const block = await tell({ ...common("tool.execute.before", input.sessionID), tool: input.tool, args })
      if (block) waiting.set(input.callID, block)
    },
    "tool.execute.after": async (input, output) => {
      if (!isShell(input) || !output) return
      const { exit, exitCode } = output.metadata || {}
      const block = await tell({
        ...common("tool.execute.after", input.sessionID),
        tool: input.tool,
        args: input.args || {},
        output: String(output.output || "").slice(0, 1000000),
        metadata: { exit: exit ?? exitCode ?? null },
      })
      const blocks = [waiting.get(input.callID), block].filter(Boolean)
      waiting.delete(input.callID)
      if (blocks.length) output.output = `${output.output || ""}\n\n${blocks.join("\n")}`
    },
  }
}
