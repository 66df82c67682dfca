"""The messages of the agent protocol, version 1, as docs/agent-protocol.md has them."""

from typing import Any

from rest_framework import serializers

from portal.api.fields import Flag, Readings, Text, Whole
from portal.nodes.models import ObservedState
from portal.nodes.rules import beats, readings

Reports = serializers.ListSerializer[Any]


class HostSerializer(serializers.Serializer[Any]):
    """What a machine says of itself when it joins."""

    os = Text(cut=120, default="", allow_blank=True)
    kernel = Text(cut=120, default="", allow_blank=True)
    cpu_count = Whole(default=None, allow_null=True)
    memory_bytes = Whole(default=None, allow_null=True)


class EnrolRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/enrol`."""

    public_key = Text(max_length=64)
    name = Text(cut=80)
    agent_version = Text(cut=32)
    protocol = Whole()
    is_simulated = Flag(default=False)
    host = HostSerializer(default=dict)


class EnrolAnswer(serializers.Serializer[Any]):
    """The node's identity."""

    node = serializers.CharField()
    provider = serializers.CharField()
    heartbeat_s = serializers.IntegerField()
    server_time = serializers.DateTimeField()


class ChallengeRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/session/challenge`."""

    node = Text(max_length=40)


class ChallengeAnswer(serializers.Serializer[Any]):
    """A nonce to sign."""

    nonce = serializers.CharField()
    expires_in_s = serializers.IntegerField()
    server_time = serializers.DateTimeField()


class SessionOpening(serializers.Serializer[Any]):
    """`POST /agent/v1/session`."""

    node = Text(max_length=40)
    nonce = Text(max_length=64)
    public_url = Text(max_length=240)
    protocol = Whole()
    instance = Text(max_length=64)
    signature = Text(max_length=120)


class SessionAnswer(serializers.Serializer[Any]):
    """An open session."""

    token = serializers.CharField()
    expires_in_s = serializers.IntegerField()
    generation = serializers.IntegerField()
    tunnel_url = serializers.CharField()
    heartbeat_s = serializers.IntegerField()
    server_time = serializers.DateTimeField()


class SliceReport(serializers.Serializer[Any]):
    """One slice of a partitioned GPU."""

    index = Whole(max_value=255)
    uuid = Text(max_length=64, default="", allow_blank=True)
    name = Text(cut=96, default="", allow_blank=True)
    memory_bytes = Whole(default=None, allow_null=True, max_value=readings.MAX_MEMORY_BYTES)
    gpu_instance = Whole(default=None, allow_null=True, max_value=255)
    compute_instance = Whole(default=None, allow_null=True, max_value=255)
    multiprocessors = Whole(default=None, allow_null=True, max_value=65_535)


class GpuReport(serializers.Serializer[Any]):
    """One GPU as the node reads it."""

    uuid = Text(max_length=64)
    index = Whole(max_value=255)
    name = Text(cut=96, default="", allow_blank=True)
    memory_bytes = Whole(default=None, allow_null=True)
    driver = Text(cut=32, default="", allow_blank=True)
    compute_capability = Text(cut=8, default="", allow_blank=True)
    values = Readings(default=dict)
    missing = Readings(default=dict)
    instances: Reports = serializers.ListSerializer(child=SliceReport(), max_length=beats.MAX_SLICES, default=list)


class GpuErrorReport(serializers.Serializer[Any]):
    """A GPU, or the library, that could not be read."""

    code = serializers.RegexField(r"^[a-z0-9_]{1,48}$")
    detail = Text(cut=400, default="", allow_blank=True)


class CountersReport(serializers.Serializer[Any]):
    """The engine's own counters; they begin again when it restarts. One that it does not have is not there."""

    prompt_tokens_total = Whole(required=False)
    generation_tokens_total = Whole(required=False)
    cached_tokens_total = Whole(required=False)
    preemptions_total = Whole(required=False)


class DeploymentReport(serializers.Serializer[Any]):
    """What the node says of one deployment."""

    deployment = Text(max_length=40)
    state = serializers.ChoiceField(ObservedState.choices)
    code = serializers.RegexField(r"^[a-z0-9_]{0,48}$", default="", allow_blank=True)
    detail = Text(cut=400, default="", allow_blank=True)
    running = Whole(max_value=100_000, default=0)
    waiting = Whole(max_value=100_000, default=0)
    counters = CountersReport(default=dict)
    facts = Readings(default=dict)


class OwnerReport(serializers.Serializer[Any]):
    """Why the machine's owner keeps it from serving, and until when where that is known."""

    code = serializers.RegexField(r"^[a-z0-9_]{1,48}$")
    until = serializers.DateTimeField(default=None, allow_null=True)


class UpdatesReport(serializers.Serializer[Any]):
    """What a node says of its own updates."""

    policy = serializers.ChoiceField(["automatic", "held", "manual"])
    tried = serializers.RegexField(r"^[0-9.]{0,24}$", default="", allow_blank=True)
    code = serializers.RegexField(r"^[a-z0-9_]{0,48}$", default="", allow_blank=True)


class HeartbeatRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/heartbeat`."""

    sent_at = serializers.DateTimeField()
    agent_version = Text(cut=32)
    wish = serializers.ChoiceField(["serve", "drain", "leave"])
    host = Readings(default=dict)
    host_missing = Readings(default=dict)
    owner = OwnerReport(default=None, allow_null=True)
    updates = UpdatesReport(default=None, allow_null=True)
    gpus: Reports = serializers.ListSerializer(child=GpuReport(), max_length=beats.MAX_GPUS, default=list)
    gpu_errors: Reports = serializers.ListSerializer(child=GpuErrorReport(), max_length=beats.MAX_GPUS, default=list)
    deployments: Reports = serializers.ListSerializer(
        child=DeploymentReport(), max_length=beats.MAX_DEPLOYMENTS, default=list
    )


class DesiredDeployment(serializers.Serializer[Any]):
    """What the node should run or stop."""

    deployment = serializers.CharField()
    model = serializers.CharField()
    engine = serializers.ChoiceField(["vllm", "external", "simulate"])
    desired = serializers.ChoiceField(["running", "stopped"])
    artefact_digest = serializers.CharField()
    context_tokens = serializers.IntegerField()
    max_output_tokens = serializers.IntegerField()
    max_concurrency = serializers.IntegerField()
    dtype = serializers.CharField()
    quantization = serializers.CharField(allow_blank=True)
    engine_args = serializers.DictField()
    settings = serializers.DictField()
    engine_version = serializers.CharField(allow_blank=True)


class MessageToOwner(serializers.Serializer[Any]):
    """Something the node's owner should read in the agent's log."""

    level = serializers.ChoiceField(["info", "warn"])
    code = serializers.CharField()
    text = serializers.CharField()
    fix = serializers.CharField()


class WantedRound(serializers.Serializer[Any]):
    """A round of checks that the node is asked for."""

    round = serializers.CharField()
    reason = serializers.ChoiceField(["join", "schedule", "demand"])
    is_whole = serializers.BooleanField()


class HeartbeatAnswer(serializers.Serializer[Any]):
    """Where the node stands and what it should run."""

    server_time = serializers.DateTimeField()
    state = serializers.CharField()
    heartbeat_s = serializers.IntegerField()
    desired = DesiredDeployment(many=True)
    messages = MessageToOwner(many=True)
    release = serializers.CharField(required=False, allow_blank=True)
    check_round = WantedRound(required=False)


class ErrorDetail(serializers.Serializer[Any]):
    """What was refused, why, and what to do."""

    message = serializers.CharField()
    type = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)


class ErrorAnswer(serializers.Serializer[Any]):
    """Every refusal."""

    error = ErrorDetail()
