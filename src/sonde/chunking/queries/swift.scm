(enum_entry) @value
(protocol_property_declaration) @value
