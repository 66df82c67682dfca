"""What a customer may ask for: each field checked, named and put into the body that goes to a node."""
