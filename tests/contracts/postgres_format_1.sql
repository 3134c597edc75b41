-- The tables as the first format made them; SOURCE stands for each source's name.
CREATE SCHEMA sonde;
SET LOCAL search_path TO sonde, public;
CREATE TABLE format (version bigint NOT NULL);
INSERT INTO format VALUES (1);
CREATE TABLE counters (
    owner text NOT NULL, source text NOT NULL,
    generation bigint NOT NULL DEFAULT 0, next_id bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (owner, source)
);
CREATE UNLOGGED TABLE memory (
    owner text NOT NULL, key text NOT NULL, value text NOT NULL, expires timestamptz NOT NULL,
    PRIMARY KEY (owner, key)
);
ALTER TABLE counters ENABLE ROW LEVEL SECURITY;
ALTER TABLE counters FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON counters
    USING (owner = current_setting('sonde.owner', true))
    WITH CHECK (owner = current_setting('sonde.owner', true));
ALTER TABLE memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON memory
    USING (owner = current_setting('sonde.owner', true))
    WITH CHECK (owner = current_setting('sonde.owner', true));
-- a source
CREATE TABLE SOURCE (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    id text NOT NULL,
    title text NOT NULL,
    folded text NOT NULL,
    created_at bigint NOT NULL,
    last_modified bigint NOT NULL,
    version bigint NOT NULL,
    tags text NOT NULL,
    folded_tags text[] NOT NULL,
    media_type text NOT NULL,
    url text NOT NULL,
    character text NOT NULL,
    facts text NOT NULL,
    origin text NOT NULL,
    path text NOT NULL,
    hash text NOT NULL,
    UNIQUE (owner, id)
);
CREATE INDEX ON SOURCE (owner, md5(folded));
CREATE INDEX ON SOURCE (owner, md5(origin)) WHERE origin <> '';
CREATE TABLE SOURCE_pieces (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    item bigint NOT NULL REFERENCES SOURCE (number) ON DELETE CASCADE,
    place bigint NOT NULL,
    start bigint NOT NULL,
    field text NOT NULL,
    uuid text NOT NULL,
    sender text NOT NULL,
    created_at bigint,
    begins bigint,
    ends bigint,
    text text NOT NULL,
    model text,
    vector bytea
);
CREATE INDEX ON SOURCE_pieces (item, place);
CREATE INDEX ON SOURCE_pieces (owner);
CREATE TABLE SOURCE_words (
    number bigint PRIMARY KEY REFERENCES SOURCE_pieces (number) ON DELETE CASCADE,
    owner text NOT NULL,
    folded text NOT NULL,
    words tsvector NOT NULL
);
CREATE INDEX ON SOURCE_words (owner);
CREATE INDEX ON SOURCE_words USING gin (words);
ALTER TABLE SOURCE ENABLE ROW LEVEL SECURITY;
ALTER TABLE SOURCE FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON SOURCE
    USING (owner = current_setting('sonde.owner', true))
    WITH CHECK (owner = current_setting('sonde.owner', true));
ALTER TABLE SOURCE_pieces ENABLE ROW LEVEL SECURITY;
ALTER TABLE SOURCE_pieces FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON SOURCE_pieces
    USING (owner = current_setting('sonde.owner', true))
    WITH CHECK (owner = current_setting('sonde.owner', true));
