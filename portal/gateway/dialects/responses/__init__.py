"""OpenAI's Responses in a chat's words, and a chat's answer in theirs. Nothing is kept between requests."""
