"""Anthropic's Messages in a chat's words, and a chat's answer in theirs."""
