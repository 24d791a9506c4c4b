-- The orders of all platforms. An order that is fetched again, because slices overlap or a task has run twice, changes nothing
-- or brings a newer state.
create table orders (
	platform      text        not null,
	number        text        not null,
	changed       timestamptz not null, -- by the platform
	status        text        not null,
	cents         bigint      not null,
	writes        bigint      not null default 1, -- how often it was written
	first_written timestamptz not null default now(),
	last_written  timestamptz not null default now(),
	primary key (platform, number)
);
