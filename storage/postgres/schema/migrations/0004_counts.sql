-- How many tasks there are, without reading them. Each statement that adds, changes or
-- removes rows of the tables task and ended notes here how many more or fewer there are of a
-- type in a state: in its own transaction, and without waiting for anybody. The sum of the
-- notes is what there is; see Fold in Go. Triggers do that, so that it is right whoever
-- changes the tables: the program of the version before, the function add, and people.

create table {schema}.tally (
	note   bigint   generated always as identity primary key, -- replication needs a key
	type   bytea    not null,
	state  smallint not null,
	keep   integer,          -- of rows in ended: in which of the tables below it they are,
	since  bigint,           -- as its name has it
	n      bigint   not null,
	folded boolean  not null -- whether it is the sum of notes that were deleted
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1,
	autovacuum_vacuum_cost_delay = 0);

-- since_of returns in which table a row of ended is: since when, in seconds, rows belong
-- there. It is one expression, so that it costs no call.
create function {schema}.since_of(keep integer, ended_at bigint) returns bigint language sql immutable as $$
select case
	when ended_at >= 0 then ended_at / 1000000 - ended_at / 1000000 % (case keep when 0 then 10368000 else keep end / 4)
	else (ended_at - (ended_at % (case keep when 0 then 10368000 else keep end / 4 * 1000000::bigint)
		+ case keep when 0 then 10368000 else keep end / 4 * 1000000::bigint)
		% (case keep when 0 then 10368000 else keep end / 4 * 1000000::bigint)) / 1000000
end
$$;

create function {schema}.tally_task() returns trigger language plpgsql as $$
begin
	case tg_op
	when 'INSERT' then
		insert into {schema}.tally (type, state, n, folded)
		select type, state, count(*), false from added group by type, state;
	when 'DELETE' then
		insert into {schema}.tally (type, state, n, folded)
		select type, state, -count(*), false from removed group by type, state;
	else
		insert into {schema}.tally (type, state, n, folded)
		select type, state, sum(n), false from (
			select type, state, -1 as n from removed
			union all
			select type, state, 1 from added) r
		group by type, state having sum(n) <> 0;
	end case;
	return null;
end $$;

create function {schema}.tally_ended() returns trigger language plpgsql as $$
begin
	if tg_op <> 'DELETE' then
		insert into {schema}.tally (type, state, keep, since, n, folded)
		select type, state, keep, {schema}.since_of(keep, ended_at), count(*), false from added group by 1, 2, 3, 4;
	end if;
	if tg_op <> 'INSERT' then
		insert into {schema}.tally (type, state, keep, since, n, folded)
		select type, state, keep, {schema}.since_of(keep, ended_at), -count(*), false from removed group by 1, 2, 3, 4;
	end if;
	return null;
end $$;

-- Nobody else has changed rows since the table was locked.
create function {schema}.tally_truncated() returns trigger language plpgsql as $$
begin
	insert into {schema}.tally (type, state, keep, since, n, folded)
	select type, state, keep, since, -sum(n), false from {schema}.tally
	where (keep is null) = (tg_table_name = 'task')
	group by 1, 2, 3, 4 having sum(n) <> 0;
	return null;
end $$;

create trigger tally_insert after insert on {schema}.task referencing new table as added
	for each statement execute function {schema}.tally_task();
create trigger tally_update after update on {schema}.task referencing old table as removed new table as added
	for each statement execute function {schema}.tally_task();
create trigger tally_delete after delete on {schema}.task referencing old table as removed
	for each statement execute function {schema}.tally_task();
create trigger tally_truncate after truncate on {schema}.task
	for each statement execute function {schema}.tally_truncated();

create trigger tally_insert after insert on {schema}.ended referencing new table as added
	for each statement execute function {schema}.tally_ended();
create trigger tally_update after update on {schema}.ended referencing old table as removed new table as added
	for each statement execute function {schema}.tally_ended();
create trigger tally_delete after delete on {schema}.ended referencing old table as removed
	for each statement execute function {schema}.tally_ended();
create trigger tally_truncate after truncate on {schema}.ended
	for each statement execute function {schema}.tally_truncated();

-- The sums, but for tables below ended that are not parts of it: those that somebody has
-- detached, and those that were dropped, whose notes are gone when they are folded.
create view {schema}.tally_now as
select type, state, keep, since, sum(n)::bigint as n from {schema}.tally
group by type, state, keep, since
having sum(n) <> 0 and (keep is null or exists (
	select from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid
	where c.relnamespace = to_regnamespace({schema_literal}) and c.relname = format('ended_%s_%s', keep, since)::name and not i.inhdetachpending));

-- How many tasks there are, for people.
create view {schema}.counts as
select {schema}.readable(type) as type, (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[state] as state, sum(n)::bigint as tasks
from {schema}.tally_now group by tally_now.type, tally_now.state;

-- recount reads all tasks, makes the notes right, and returns how many sums were wrong. What
-- there is and what was noted are of one moment, and it notes the difference: so nobody who
-- changes rows meanwhile has to wait.
create function {schema}.recount() returns bigint language plpgsql volatile as $$
declare
	wrong bigint;
begin
	perform {schema}.check_isolation();
	lock table {schema}.tally in share update exclusive mode; -- one at a time
	insert into {schema}.tally (type, state, keep, since, n, folded)
	select type, state, keep, since, sum(n), false from (
		select type, state, null::integer as keep, null::bigint as since, 1 as n from {schema}.task
		union all
		select type, state, keep, {schema}.since_of(keep, ended_at), 1 from {schema}.ended
		union all
		select type, state, keep, since, -n from {schema}.tally_now) r
	group by 1, 2, 3, 4 having sum(n) <> 0;
	get diagnostics wrong = row_count;
	return wrong;
end $$;

-- Those who change rows wait from the first trigger on until this transaction has ended.
select {schema}.recount();
