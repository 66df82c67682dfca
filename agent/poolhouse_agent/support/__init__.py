"""What an owner hands to somebody who helps: everything about the machine, nothing of what it was asked, no secret."""
