-- The head of an ordering key runs with the highest priority of the ready tasks behind it, if their types and its
-- own say so. The column priority of such a head is the priority with which it runs. Its own is in front of its headers,
-- and so is that of every task whose type inherits: a header without a name whose value is the priority, in one byte, and
-- another one without a name and value. No request can have two headers of one name, and programs of the version
-- before read a header without a name.
--
-- It has no column of its own because programs of the version before write to the table ended what the table task has,
-- column by column: see the migration that adds turns.

alter table {schema}.type_policy add inherits boolean not null default false;

-- heir returns what the headers of a task of this priority begin with whose type inherits.
create function {schema}.heir(priority smallint) returns bytea language sql immutable as $$
select e'\\x0000000000000001'::bytea || set_byte(e'\\x00', 0, priority::integer) || e'\\x0000000000000000'::bytea
$$;

-- What is behind, ready and lends its priority. A task that waits for its time has the due_state 1. The index has no
-- column that a grab changes.
create index task_lends on {schema}.task (ordering_key, priority)
	where shard >> 16 = 1 and due_state is distinct from 1
		and substr(headers, 1, 8) = e'\\x0000000000000001' and substr(headers, 10, 8) = e'\\x0000000000000000';

-- A row of a request is behind, and is not queued, if it has an ordering key.
create or replace function {schema}.row_of(id uuid, type text, payload bytea, key text, ordering_key text, priority integer,
	at timestamptz, expires_at timestamptz, headers jsonb, p {schema}.type_policy) returns {schema}.task language plpgsql volatile as $$
declare
	r      {schema}.task;
	at_us  bigint := {schema}.microseconds(at);
	now_us bigint := {schema}.microseconds(clock_timestamp());
	until  bigint := least({schema}.microseconds(expires_at), now_us + nullif(p.total_timeout, 0));
begin
	r.id := id;
	r.version := 1;
	r.seq := nextval('{task_seq}');
	r.state := case when at_us > now_us then 1 else 2 end;
	r.created_at := now_us;
	r.updated_at := now_us;
	r.ready_at := coalesce(at_us, now_us);
	r.due_at := least(case when r.state = 1 then at_us else now_us + nullif(p.queue_timeout, 0) end, until);
	r.due_state := case when r.due_at is not null then r.state end;
	r.next_event_at := coalesce(r.due_at, {none});
	r.expires_at := coalesce(until, {none});
	r.started_at := {none};
	r.attempt := 0;
	r.crashes := 0;
	r.priority := coalesce(priority, p.priority);
	r.type := convert_to(type, 'UTF8');
	r.grp := {schema}.group_of(p.keyed, payload, headers, key, ordering_key);
	r.key := convert_to(nullif(key, ''), 'UTF8');
	r.ordering_key := convert_to(nullif(ordering_key, ''), 'UTF8');
	r.shard := case when r.ordering_key is null then {schema}.shard_of(id) else {schema}.shard_of(r.ordering_key) end;
	if p.ordered and r.ordering_key is not null then
		r.shard := r.shard + 65536; -- a node makes it the head when the transaction has committed
	end if;
	r.queued := r.state = 2 and r.shard >> 16 = 0;
	r.headers := {schema}.headers_as_bytes(headers);
	if p.inherits and r.shard >> 16 = 1 then
		r.headers := {schema}.heir(r.priority) || coalesce(r.headers, '');
	end if;
	r.payload := {schema}.stored(payload);
	return r;
end $$;
