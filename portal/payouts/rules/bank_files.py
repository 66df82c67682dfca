"""The files that a bank takes: a table for any bank, and pain.001 (ISO 20022) for SEPA credit transfers."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree as ET

from portal.core import money

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
_LONGEST_NAME = 70
_LONGEST_TEXT = 140
_LONGEST_ID = 35


@dataclass(frozen=True, slots=True)
class Order:
    """One transfer: who is paid how much, where, and what stands on both statements."""

    payout: str
    holder: str
    scheme: str
    account: str
    bank: str
    country: str
    amount_minor: int
    currency: str
    reference: str

    @property
    def amount(self) -> str:
        """The amount as a decimal of the currency's unit."""
        return amount_text(self.amount_minor, self.currency)


@dataclass(frozen=True, slots=True)
class Payer:
    """The pool's own account."""

    name: str
    iban: str
    bic: str = ""


HEADER = ("payout", "holder", "scheme", "account", "bank", "country", "amount", "currency", "reference")


def row(order: Order) -> tuple[str, ...]:
    """Return the table's row."""
    return (
        order.payout,
        order.holder,
        order.scheme,
        order.account,
        order.bank,
        order.country,
        order.amount,
        order.currency.upper(),
        order.reference,
    )


def amount_text(minor: int, currency: str) -> str:
    """Return minor units as a plain decimal with all its digits."""
    digits = money.exponent(currency)
    whole, rest = divmod(minor, 10**digits)
    return f"{whole}.{rest:0{digits}d}" if digits else str(whole)


def pain_001(orders: Sequence[Order], *, payer: Payer, message_id: str, now: datetime) -> bytes:
    """Return one SEPA payment order over these transfers. Raises ValueError for what SEPA does not carry."""
    for order in orders:
        if order.scheme != "iban" or order.currency != "eur":
            raise ValueError(f"{order.payout} is no transfer in euro to an IBAN")
    total = amount_text(sum(order.amount_minor for order in orders), "eur")
    document = ET.Element("Document", {"xmlns": NAMESPACE})
    initiation = ET.SubElement(document, "CstmrCdtTrfInitn")
    head = ET.SubElement(initiation, "GrpHdr")
    _texts(head, MsgId=message_id[:_LONGEST_ID], CreDtTm=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    _texts(head, NbOfTxs=str(len(orders)), CtrlSum=total)
    _texts(ET.SubElement(head, "InitgPty"), Nm=_plain(payer.name, _LONGEST_NAME))
    block = ET.SubElement(initiation, "PmtInf")
    _texts(block, PmtInfId=message_id[:_LONGEST_ID], PmtMtd="TRF", NbOfTxs=str(len(orders)), CtrlSum=total)
    _texts(ET.SubElement(ET.SubElement(block, "PmtTpInf"), "SvcLvl"), Cd="SEPA")
    _texts(ET.SubElement(block, "ReqdExctnDt"), Dt=f"{now:%Y-%m-%d}")
    _party(block, "Dbtr", payer.name, payer.iban)
    _agent(block, "DbtrAgt", payer.bic)
    _texts(block, ChrgBr="SLEV")
    for order in orders:
        _transfer(block, order)
    ET.indent(document)
    return bytes(ET.tostring(document, encoding="utf-8", xml_declaration=True))


def _transfer(block: ET.Element, order: Order) -> None:
    part = ET.SubElement(block, "CdtTrfTxInf")
    _texts(ET.SubElement(part, "PmtId"), EndToEndId=_plain(order.payout, _LONGEST_ID))
    amount = ET.SubElement(ET.SubElement(part, "Amt"), "InstdAmt", {"Ccy": "EUR"})
    amount.text = order.amount
    _agent(part, "CdtrAgt", order.bank, is_needed=False)
    _party(part, "Cdtr", order.holder, order.account)
    _texts(ET.SubElement(part, "RmtInf"), Ustrd=_plain(order.reference, _LONGEST_TEXT))


def _party(parent: ET.Element, tag: str, name: str, iban: str) -> None:
    _texts(ET.SubElement(parent, tag), Nm=_plain(name, _LONGEST_NAME))
    _texts(ET.SubElement(ET.SubElement(parent, f"{tag}Acct"), "Id"), IBAN=iban)


def _agent(parent: ET.Element, tag: str, bic: str, *, is_needed: bool = True) -> None:
    """The order of elements is the standard's: the payer's bank comes after the payer, a payee's before the payee."""
    if not bic and not is_needed:
        return
    bank = ET.SubElement(ET.SubElement(parent, tag), "FinInstnId")
    if bic:
        _texts(bank, BICFI=bic)
    else:
        _texts(ET.SubElement(bank, "Othr"), Id="NOTPROVIDED")


def _texts(parent: ET.Element, **texts: str) -> None:
    for tag, text in texts.items():
        ET.SubElement(parent, tag).text = text


def _plain(text: str, longest: int) -> str:
    """Return the text in the letters that every SEPA bank takes: accents go, what has no letter becomes a dot."""
    bare = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("_", "-"))
    kept = "".join(one for one in bare if not unicodedata.combining(one))
    return re.sub(r"[^A-Za-z0-9/\-?:().,'+ ]", ".", kept)[:longest].strip()
