// The AI SDK with @ai-sdk/openai-compatible: what a program written with it sees. Prints one JSON object.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText, tool } from "ai";
import { z } from "zod";

const pool = (apiKey) =>
  createOpenAICompatible({ name: "pool", apiKey, baseURL: process.env.POOL_URL, includeUsage: true });
const model = pool(process.env.POOL_KEY)(process.env.POOL_MODEL);
const inputSchema = z.object({ model: z.string() });
const tools = {
  price: tool({ description: "Returns the price of a model.", inputSchema }),
  speed: tool({ description: "Returns the speed of a model.", inputSchema }),
};
const ask = "What is a pool?";
const both = [{ role: "user", content: "Tell me price and speed please" }];
const options = { model, maxRetries: 0 };

const calls = (made) => made.map((call) => ({ name: call.toolName, arguments: call.input }));

const plain = await generateText({ ...options, prompt: ask });
const streaming = streamText({ ...options, prompt: ask });
let streamed = "";
for await (const piece of streaming.textStream) streamed += piece;
const called = await generateText({ ...options, messages: both, tools });
const gathered = streamText({ ...options, messages: both, tools });
await gathered.consumeStream();
const results = called.toolCalls.map((call) => ({
  type: "tool-result",
  toolCallId: call.toolCallId,
  toolName: call.toolName,
  output: { type: "text", value: `${call.toolName} 2` },
}));
const after = await generateText({
  ...options,
  messages: [...both, ...called.response.messages, { role: "tool", content: results }],
  tools,
});

let error = null;
try {
  await generateText({ model: pool("sk-pool-nobody")(process.env.POOL_MODEL), maxRetries: 0, prompt: ask });
} catch (refusal) {
  error = { status: refusal.statusCode, message: refusal.message };
}

console.log(
  JSON.stringify({
    plain: plain.text,
    stream: streamed,
    tools: calls(called.toolCalls),
    streamed_tools: calls(await gathered.toolCalls),
    after_tools: after.text,
    usage: { completion: (await streaming.usage).outputTokens },
    error,
  }),
);
