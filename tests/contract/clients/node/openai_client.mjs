// npm's openai: what a program written with it sees. Prints one JSON object.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: process.env.POOL_KEY, baseURL: process.env.POOL_URL, maxRetries: 0 });
const model = process.env.POOL_MODEL;
const ask = [{ role: "user", content: "What is a pool?" }];
const both = [{ role: "user", content: "Tell me price and speed please" }];
const parameters = { type: "object", properties: { model: { type: "string" } }, required: ["model"] };
const tools = ["price", "speed"].map((name) => ({ type: "function", function: { name, parameters } }));

const calls = (message) =>
  message.tool_calls.map((call) => ({ name: call.function.name, arguments: JSON.parse(call.function.arguments) }));

const plain = await client.chat.completions.create({ model, messages: ask });
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages: ask, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
const called = (await client.chat.completions.create({ model, messages: both, tools })).choices[0].message;
const gathered = await client.chat.completions.stream({ model, messages: both, tools }).finalMessage();
const results = called.tool_calls.map((call) => ({
  role: "tool",
  tool_call_id: call.id,
  content: `${call.function.name} 2`,
}));
const after = await client.chat.completions.create({ model, messages: [...both, called, ...results], tools });
const responses = await client.responses.stream({ model, input: "What is a pool?" }).finalResponse();

const stranger = new OpenAI({ apiKey: "sk-pool-nobody", baseURL: process.env.POOL_URL, maxRetries: 0 });
let error = null;
try {
  await stranger.chat.completions.create({ model, messages: ask });
} catch (refusal) {
  error = { status: refusal.status, message: refusal.message };
}

console.log(
  JSON.stringify({
    plain: plain.choices[0].message.content,
    stream: streamed,
    tools: calls(called),
    streamed_tools: calls(gathered),
    after_tools: after.choices[0].message.content,
    responses: responses.output_text,
    usage: { completion: plain.usage.completion_tokens },
    error,
  }),
);
