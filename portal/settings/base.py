"""Settings that every process shares. Nothing here starts a server; production.py refuses what is missing."""

from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from portal.settings import env, mail

BASE_DIR = Path(__file__).resolve().parent.parent.parent

SECRET_KEY = env.text("SECRET_KEY", "")
SECRET_KEY_FALLBACKS = env.items("SECRET_KEY_FALLBACKS")
DEBUG = False
ALLOWED_HOSTS = env.items("ALLOWED_HOSTS", "127.0.0.1,localhost")
CSRF_TRUSTED_ORIGINS = env.items("CSRF_TRUSTED_ORIGINS")
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
PUBLIC_URL = env.url("PUBLIC_URL", "http://127.0.0.1:8000")
GATEWAY_URL = env.url("GATEWAY_URL", "http://127.0.0.1:8001")
POOL_NAME = env.text("POOL_NAME", "Poolhouse")
SIGNUP = env.choice("SIGNUP", "open", {"open", "invite", "closed"})
METRICS_TOKEN = env.text("METRICS_TOKEN")
RECEIPT_SIGNING_KEY = env.text("RECEIPT_SIGNING_KEY")
AGENT_RELEASE_PUBLIC_KEY = env.base64_bytes("AGENT_RELEASE_PUBLIC_KEY", length=32)

CURRENCY = env.text("CURRENCY", "usd").lower()
PLATFORM_FEE_BPS = env.integer("PLATFORM_FEE_BPS", 2000, low=0, high=10_000)
PAYOUT_MINIMUM_MINOR = env.integer("PAYOUT_MINIMUM_MINOR", 2000, low=1, high=10_000_000)
USAGE_RETENTION_DAYS = env.integer("USAGE_RETENTION_DAYS", 400, low=0, high=36_500)
PAYOUT_HOLD_DAYS = env.integer("PAYOUT_HOLD_DAYS", 7, low=0, high=365)
# Of each matured earning of a new provider so many basis points are kept back for so many days; other trust tiers keep
# back a multiple of it. 0 days: there is no reserve.
PAYOUT_RESERVE_BPS = env.integer("PAYOUT_RESERVE_BPS", 1000, low=0, high=5000)
PAYOUT_RESERVE_DAYS = env.integer("PAYOUT_RESERVE_DAYS", 30, low=0, high=365)
# When payouts are drafted by themselves: on a day of each month, whenever a threshold is reached, or never (manual). A
# provider may choose monthly or its own threshold. Nothing that is drafted is sent before operators have approved it.
PAYOUT_SCHEDULE = env.choice("PAYOUT_SCHEDULE", "monthly", {"monthly", "threshold", "manual"})
PAYOUT_DAY = env.integer("PAYOUT_DAY", 1, low=1, high=28)
PAYOUT_THRESHOLD_MINOR = env.integer("PAYOUT_THRESHOLD_MINOR", 10_000, low=1, high=100_000_000)
# Smallest payouts to some countries, in minor units of CURRENCY: `KR:4000,TH:2500`. They add to Stripe's own.
PAYOUT_COUNTRY_MINIMUMS = env.amounts("PAYOUT_COUNTRY_MINIMUMS")
# What Stripe takes for a payout to a bank, as its price list says; who bears it: the pool, or the provider.
PAYOUT_FEE_FIXED_MINOR = env.integer("PAYOUT_FEE_FIXED_MINOR", 25, low=0, high=100_000)
PAYOUT_FEE_BPS = env.integer("PAYOUT_FEE_BPS", 25, low=0, high=1000)
PAYOUT_FEE_BEARER = env.choice("PAYOUT_FEE_BEARER", "pool", {"pool", "provider"})
# Customers are told of a new price so many days before it holds.
PRICE_NOTICE_DAYS = env.integer("PRICE_NOTICE_DAYS", 14, low=0, high=365)
PAYOUT_COUNTRIES = [country.upper() for country in env.items("PAYOUT_COUNTRIES")]
# Whether providers whom Stripe has not identified yet get paid work: what they earn is held, within caps, until then.
EARN_BEFORE_KYC = env.boolean("EARN_BEFORE_KYC", default=False)
EARN_BEFORE_KYC_CAP_MINOR = env.integer("EARN_BEFORE_KYC_CAP_MINOR", 5000, low=1, high=10_000_000)
EARN_BEFORE_KYC_TOTAL_MINOR = env.integer("EARN_BEFORE_KYC_TOTAL_MINOR", 100_000, low=1, high=1_000_000_000)
# After how many days held earnings are forfeited; 0 keeps them for as long as it takes.
EARN_BEFORE_KYC_EXPIRY_DAYS = env.integer("EARN_BEFORE_KYC_EXPIRY_DAYS", 0, low=0, high=3650)
# Bank transfers that operators make themselves, for providers whose bank details they have checked.
MANUAL_PAYOUTS = env.boolean("MANUAL_PAYOUTS", default=False)
# The pool's own account, as the payer in SEPA payment files.
PAYOUT_BANK_NAME = env.text("PAYOUT_BANK_NAME")
PAYOUT_BANK_IBAN = env.iban("PAYOUT_BANK_IBAN")
PAYOUT_BANK_BIC = env.text("PAYOUT_BANK_BIC")
PAYOUT_APPROVERS = env.integer("PAYOUT_APPROVERS", 1, low=1, high=2)
# A customer's bank transfer of so much (minor units) or more is booked by two operators, whatever PAYOUT_APPROVERS is.
BANK_TRANSFER_SECOND_FROM_MINOR = env.integer("BANK_TRANSFER_SECOND_FROM_MINOR", 100_000, low=0, high=1_000_000_000_000)
# Where your terms are; whoever buys credit is shown the address and accepts them with the purchase.
TERMS_URL = env.url("TERMS_URL")
# Refunds of unused credit that a customer asks for: an operator approves each (request), or they go out by themselves.
REFUNDS = env.choice("REFUNDS", "request", {"request", "automatic"})
# How long earnings from a customer's money mature at least, by how well its card payments are known. Most disputes of
# stolen cards come within sixty days. The provider's own hold still counts where it is longer.
CUSTOMER_NEW_HOLD_DAYS = env.integer("CUSTOMER_NEW_HOLD_DAYS", 60, low=0, high=365)
CUSTOMER_KNOWN_HOLD_DAYS = env.integer("CUSTOMER_KNOWN_HOLD_DAYS", 14, low=0, high=365)
CUSTOMER_TRUSTED_HOLD_DAYS = env.integer("CUSTOMER_TRUSTED_HOLD_DAYS", 0, low=0, high=365)
# A dispute or a fraud warning keeps what is still maturing from that customer back for so long.
DISPUTE_HOLD_DAYS = env.integer("DISPUTE_HOLD_DAYS", 90, low=0, high=365)
# So long after a dispute is lost, what the customer still owes for it becomes bad debt.
DISPUTE_WRITE_OFF_DAYS = env.integer("DISPUTE_WRITE_OFF_DAYS", 30, low=0, high=3650)
# Against stolen cards, 0 is no limit: the most that a week-old organization may buy in a day (more with its age and
# history), how many first purchases its bank must authenticate, purchases begun by organization and by address, and
# different cards within a month.
TOPUP_FIRST_CAP_MINOR = env.integer("TOPUP_FIRST_CAP_MINOR", 10_000, low=0, high=1_000_000_000)
TOPUP_AUTHENTICATED_FIRST = env.integer("TOPUP_AUTHENTICATED_FIRST", 3, low=0, high=1000)
TOPUP_ATTEMPTS_PER_HOUR = env.integer("TOPUP_ATTEMPTS_PER_HOUR", 6, low=0, high=10_000)
TOPUP_ATTEMPTS_PER_DAY = env.integer("TOPUP_ATTEMPTS_PER_DAY", 20, low=0, high=10_000)
TOPUP_ADDRESS_ATTEMPTS_PER_HOUR = env.integer("TOPUP_ADDRESS_ATTEMPTS_PER_HOUR", 12, low=0, high=10_000)
TOPUP_ADDRESS_ATTEMPTS_PER_DAY = env.integer("TOPUP_ADDRESS_ATTEMPTS_PER_DAY", 40, low=0, high=10_000)
TOPUP_CARDS = env.integer("TOPUP_CARDS", 3, low=0, high=1000)
# The smallest purchase in minor units; 0: five units of the currency, five hundred of one without decimals.
TOPUP_MINIMUM_MINOR = env.integer("TOPUP_MINIMUM_MINOR", 0, low=0, high=1_000_000_000)

# Who the pool is on credit notes to its providers. Without a name and a country none are written, and no VAT is paid.
ISSUER_NAME = env.text("ISSUER_NAME")
ISSUER_ADDRESS = env.text("ISSUER_ADDRESS")
ISSUER_COUNTRY = env.country("ISSUER_COUNTRY")
ISSUER_TAX_ID = env.text("ISSUER_TAX_ID")
# Whether everyone may read /books: what was charged each day, and who got it. Operators always may.
PUBLISH_BOOKS = env.choice("PUBLISH_BOOKS", "off", {"on", "off"})

# Lets Stripe compute sales tax or VAT on purchases of credit, and ask buyers for their tax numbers. Stripe Tax must be
# switched on in its dashboard first.
STRIPE_AUTOMATIC_TAX = env.boolean("STRIPE_AUTOMATIC_TAX", default=False)
STRIPE_API_KEY = env.text("STRIPE_API_KEY")
STRIPE_API_BASE = env.url("STRIPE_API_BASE", "https://api.stripe.com")
# Which of Stripe's account APIs opens providers' accounts: v1 only for platforms that Stripe has kept on it.
STRIPE_ACCOUNTS_API = env.choice("STRIPE_ACCOUNTS_API", "v2", {"v1", "v2"})
STRIPE_WEBHOOK_SECRET = env.text("STRIPE_WEBHOOK_SECRET")
STRIPE_CONNECT_WEBHOOK_SECRET = env.text("STRIPE_CONNECT_WEBHOOK_SECRET")
STRIPE_EVENTS_SECRET = env.text("STRIPE_EVENTS_SECRET")
STRIPE_TIMEOUT_S = env.integer("STRIPE_TIMEOUT_S", 30, low=1, high=60)

DATABASE_URL = env.text("DATABASE_URL")
DATABASE_DIRECT_URL = env.text("DATABASE_DIRECT_URL", DATABASE_URL)
REDIS_URL = env.text("REDIS_URL")
DATABASES: dict[str, Any] = {"default": env.database(DATABASE_URL)} if DATABASE_URL else {}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

ROOMS = [
    "portal.audit",
    "portal.notifications",
    "portal.accounts",
    "portal.catalog",
    "portal.providers",
    "portal.nodes",
    "portal.metering",
    "portal.trust",
    "portal.billing",
    "portal.payouts",
    "portal.webhooks",
]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "csp",
    "django_cotton",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "lucide",
    "rest_framework",
    *ROOMS,
    "portal.api",
    "portal.web",
    "portal.operators",
]

MIDDLEWARE = [
    "portal.core.trusted_proxy.TrustedProxyScheme",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.web.errors.DomainErrors",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.web.shell.shell",
            ],
        },
    }
]
COTTON_DIR = "components"

EMAIL_URL = env.text("EMAIL_URL", "console:")
globals().update(mail.settings(EMAIL_URL))
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "poolhouse@localhost")

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"

ACCOUNT_ADAPTER = "portal.web.sign_in.adapter.PoolAccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_SIGNUP_FORM_CLASS = "portal.web.sign_in.forms.SignUpFields"
# An address is proven before the first sign-in wherever mail really leaves.
ACCOUNT_EMAIL_VERIFICATION = "mandatory" if EMAIL_URL.startswith("smtp") else "optional"
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_DEFAULT_HTTP_PROTOCOL = PUBLIC_URL.partition(":")[0]
MFA_ADAPTER = "portal.web.sign_in.mfa.PoolMFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = POOL_NAME
MFA_ALLOW_UNVERIFIED_EMAIL = ACCOUNT_EMAIL_VERIFICATION == "optional"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]

# `default` is shared by all replicas, since sign-in attempts are counted in it. `process` is each process's own: for
# what is cheap to make anew, and must not be read by a replica of another version.
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "process"},
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"

CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BEAT_SCHEDULER = "portal.beat.SharedScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
# A page does not wait for a broker that is away; what it committed is found again by the periodic tasks.
_PUBLISH_RETRIES = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
CELERY_TASK_PUBLISH_RETRY_POLICY = _PUBLISH_RETRIES
# A task that a killed worker held returns to the queue after the visibility timeout. Time limits end every task before
# that, so that none runs twice at once for this reason.
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {"visibility_timeout": 300, **_PUBLISH_RETRIES}
CELERY_TASK_SOFT_TIME_LIMIT = 210
CELERY_TASK_TIME_LIMIT = 240

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "portal.api.errors.handle",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Poolhouse",
    "VERSION": "1",
    "DESCRIPTION": "What machines say to the pool: the agent protocol and the management API.",
    "LICENSE": {"name": "Apache-2.0"},
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "enrolmentToken": {"type": "http", "scheme": "bearer", "bearerFormat": "ph-enrol-…"},
            "sessionToken": {"type": "http", "scheme": "bearer", "bearerFormat": "ph-session-…"},
        }
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}
