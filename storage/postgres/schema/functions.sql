-- The functions, triggers and views. A program replaces all of them when it migrates a database whose functions are
-- others. A migration drops those whose arguments or columns change.

-- What tasks and requests are made of.

create or replace function {schema}.microseconds(t timestamptz) returns bigint language sql stable as $$
select (extract(epoch from t) * 1000000)::bigint
$$;

create or replace function {schema}.moment(us bigint) returns timestamptz language sql immutable as $$
select case when us <> {none} then timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond' end
$$;

create or replace function {schema}.readable(b bytea) returns text language plpgsql immutable as $$
begin
	return convert_from(b, 'UTF8');
exception when data_exception then
	return encode(b, 'escape');
end $$;

-- A UUID of version 7 (RFC 9562), whose twelve bits after the millisecond hold the fraction
-- of it.
create or replace function {schema}.new_id() returns uuid language plpgsql volatile as $$
declare
	us   bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
	frac integer := (us % 1000) * 4096 / 1000;
	id   bytea := uuid_send(gen_random_uuid());
begin
	id := overlay(id placing substring(int8send(us / 1000) from 3) from 1);
	return encode(set_byte(set_byte(id, 6, 112 + (frac >> 8)), 7, frac & 255), 'hex')::uuid;
end $$;

-- An id like this one, of a given shard.
create or replace function {schema}.id_in(id uuid, shard integer) returns uuid language sql immutable as $$
select encode(set_byte(b, 15, get_byte(b, 3) # get_byte(b, 7) # shard), 'hex')::uuid from uuid_send(id) b
$$;

-- The time in an id of version 7, and the beginning of time for others.
create or replace function {schema}.made_at(id uuid) returns bigint language plpgsql immutable as $$
declare
	b bytea := uuid_send(id);
begin
	if get_byte(b, 6) >> 4 <> 7 or get_byte(b, 8) >> 6 <> 2 then
		return -9223372036854775808;
	end if;
	return ('x0000' || encode(substring(b from 1 for 6), 'hex'))::bit(64)::bigint * 1000;
end $$;

-- The shard of an id, as the engine has it.
create or replace function {schema}.shard_of(id uuid) returns integer language sql immutable as $$
select get_byte(b, 3) # get_byte(b, 7) # get_byte(b, 15) from uuid_send(id) b
$$;

-- The shard of a name: FNV-1a of 32 bits, as the engine has it.
create or replace function {schema}.shard_of(name bytea) returns integer language plpgsql immutable as $$
declare
	h bigint := 2166136261;
begin
	for i in 0 .. length(name) - 1 loop
		h := ((h # get_byte(name, i)) * 16777619) & 4294967295;
	end loop;
	return h % {shards};
end $$;

-- What the store has for data: nodes take what begins with these four bytes for encoded data (package codec), so data
-- that begins so itself is put into an envelope.
create or replace function {schema}.stored(b bytea) returns bytea language sql immutable as $$
	select case when substring(b from 1 for 4) = '\x00746501' then '\x0074650100'::bytea || b else nullif(b, '') end
$$;

-- Headers as rows keep them: sorted, each text after its length.
create or replace function {schema}.headers_as_bytes(headers jsonb) returns bytea language sql immutable as $$
select string_agg(int4send(length(name)) || name || int4send(length(value)) || value, '' order by name)
from (select convert_to(h.key, 'UTF8') as name, convert_to(h.value, 'UTF8') as value from jsonb_each_text(headers) h) h
$$;

-- header_of returns the text of a header of a row.
create or replace function {schema}.header_of(headers bytea, name text) returns text language plpgsql immutable as $$
declare
	wanted constant bytea := convert_to(name, 'UTF8');
	header bytea;
	value  bytea;
	place  integer := 1;
begin
	while place <= length(headers) loop
		header := {schema}.text_in(headers, place);
		place := place + 4 + length(header);
		value := {schema}.text_in(headers, place);
		place := place + 4 + length(value);
		if header = wanted then
			return convert_from(value, 'UTF8');
		end if;
	end loop;
	return null;
end $$;

-- A member of a JSON document as text: '' if it is not there.
create or replace function {schema}.member_of(document json, path text[]) returns text language plpgsql immutable as $$
declare
	name text;
begin
	foreach name in array path loop
		if json_typeof(document) = 'null' then
			return '';
		elsif json_typeof(document) <> 'object' then
			raise exception 'it is not a JSON object' using errcode = '22023';
		end if;
		document := document -> name;
		if document is null then
			return '';
		end if;
	end loop;
	if json_typeof(document) in ('object', 'array') then
		raise exception 'it is neither text, a number nor a boolean' using errcode = '22023';
	end if;
	return coalesce(document #>> '{}', '');
end $$;

-- The values that the limits of a type look at, packed as the engine packs them.
create or replace function {schema}.group_of(keyed jsonb, payload bytea, headers jsonb, key text, ordering_key text) returns bytea language plpgsql immutable as $$
declare
	k      jsonb;
	path   text[];
	value  text;
	packed text;
begin
	for k in select e from jsonb_array_elements(keyed) with ordinality as a (e, n) order by n loop
		path := array(select e from jsonb_array_elements_text(k -> 'path') with ordinality as a (e, n) order by n);
		case path[1]
		when 'key' then
			value := key;
		when 'ordering_key' then
			value := ordering_key;
		when 'headers' then
			value := headers ->> array_to_string(path[2:], '.');
		else
			begin
				value := {schema}.member_of(convert_from(coalesce(payload, ''), 'UTF8')::json, path[2:]);
			exception when data_exception then
				raise exception using errcode = '22023',
					message = format('limit %s needs %s of the payload: %s', k ->> 'limit', array_to_string(path[2:], '.'), sqlerrm);
			end;
		end case;
		value := replace(replace(coalesce(value, ''), e'\x1e', e'\x1e0'), e'\x1f', e'\x1e1');
		packed := case when packed is null then value else packed || e'\x1f' || value end;
	end loop;
	if octet_length(convert_to(packed, 'UTF8')) > 1000 then
		raise exception using errcode = '22023',
			message = format('the values that its limits look at have %s bytes, of 1000 allowed', octet_length(convert_to(packed, 'UTF8')));
	end if;
	return convert_to(coalesce(packed, ''), 'UTF8');
end $$;

-- group_with returns the group of a row with another payload.
create or replace function {schema}.group_with(r {schema}.task, payload bytea, keyed jsonb) returns bytea language plpgsql immutable as $$
declare
	path    text[];
	headers jsonb := '{}';
	key     text;
	ordered text;
begin
	for path in select array(select e from jsonb_array_elements_text(k -> 'path') with ordinality as a (e, n) order by n) from jsonb_array_elements(keyed) k loop
		case path[1]
		when 'headers' then
			headers := headers || jsonb_build_object(array_to_string(path[2:], '.'), {schema}.header_of(r.headers, array_to_string(path[2:], '.')));
		when 'key' then
			key := convert_from(r.key, 'UTF8');
		when 'ordering_key' then
			ordered := convert_from(r.ordering_key, 'UTF8');
		else
		end case;
	end loop;
	return {schema}.group_of(keyed, payload, headers, key, ordered);
end $$;

-- key_of returns the key of a request that has none, as the engine makes it of the places that by names;
-- null if it names none.
create or replace function {schema}.key_of(type text, by jsonb, payload bytea, headers jsonb, ordering_key text) returns text language plpgsql immutable as $$
declare
	path   text[];
	value  text;
	packed text;
begin
	for path in select array(select m from jsonb_array_elements_text(e) with ordinality as a (m, n) order by n) from jsonb_array_elements(by) with ordinality as a (e, n) order by n loop
		case path[1]
		when 'ordering_key' then
			value := ordering_key;
		when 'headers' then
			value := headers ->> array_to_string(path[2:], '.');
		else
			begin
				value := {schema}.member_of(convert_from(coalesce(payload, ''), 'UTF8')::json, path[2:]);
			exception when data_exception then
				raise exception using errcode = '22023',
					message = format('unique.by of type %s needs %s: %s', type, array_to_string(path, '.'), sqlerrm);
			end;
		end case;
		if coalesce(value, '') = '' then
			raise exception using errcode = '22023',
				message = format('unique.by of type %s needs %s, and the request does not have it: add it, or a key', type, array_to_string(path, '.'));
		end if;
		value := replace(replace(value, e'\x1e', e'\x1e0'), e'\x1f', e'\x1e1');
		packed := case when packed is null then value else packed || e'\x1f' || value end;
	end loop;
	if octet_length(convert_to(packed, 'UTF8')) > 500 then
		raise exception using errcode = '22023',
			message = format('the key that unique.by makes has %s bytes, of 500 allowed', octet_length(convert_to(packed, 'UTF8')));
	end if;
	return packed;
end $$;

-- Adding tasks. The functions add and add_bytes make the checks that the engine makes, in the transaction of their caller.

-- What is wrong with a request, in the words of the engine; null if nothing is.
create or replace function {schema}.problem_of(type text, payload bytea, key text, ordering_key text, priority integer,
	at timestamptz, expires_at timestamptz, headers jsonb, max_payload bigint) returns text language plpgsql stable as $$
declare
	type_bytes    integer := octet_length(convert_to(type, 'UTF8'));
	key_bytes     integer := octet_length(convert_to(key, 'UTF8'));
	ordering      integer := octet_length(convert_to(ordering_key, 'UTF8'));
	header_bytes  bigint;
	begin_of_time constant timestamptz := '1970-01-01 00:00:00 UTC';
	end_of_time   constant timestamptz := '9999-12-31 23:59:59.999999 UTC';
begin
	if headers is not null and jsonb_typeof(headers) <> 'null' then
		if jsonb_typeof(headers) <> 'object' or exists (select from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string') then
			return 'headers must be a JSON object with texts as members';
		end if;
		select sum(octet_length(convert_to(h.key, 'UTF8')) + octet_length(convert_to(h.value, 'UTF8'))) into header_bytes from jsonb_each_text(headers) h;
	end if;
	return case
		when coalesce(type, '') = '' then 'type is missing'
		when type_bytes > 200 then format('type has %s bytes, of 200 allowed', type_bytes)
		when type ~ e'[\\x01-\\x1f\\x7f]' then 'type has characters that cannot be printed'
		when starts_with(type, 'taskengine.') and type <> 'taskengine.workflow' then format('type %s is reserved: types that begin with taskengine. belong to the engine', left(type, 80))
		when key = '' then 'key is empty: leave it out if there is none'
		when key_bytes > 500 then format('key has %s bytes, of 500 allowed', key_bytes)
		when ordering_key = '' then 'ordering key is empty: leave it out if there is none'
		when ordering > 500 then format('ordering key has %s bytes, of 500 allowed', ordering)
		when length(payload) > max_payload then
			format('payload has %s bytes, of %s allowed by max_payload of type %s', length(payload), max_payload, type)
		when header_bytes > 16384 then format('headers have %s bytes, of 16384 allowed', header_bytes)
		when priority not between 0 and 9 then format('priority is %s, of 0 (sooner) to 9 (later)', priority)
		when at not between begin_of_time and end_of_time or expires_at not between begin_of_time and end_of_time then
			'times must lie between the years 1970 and 9999'
	end;
end $$;

-- What the engine asks for in transactions that others have begun.
create or replace function {schema}.check_isolation() returns void language plpgsql stable as $$
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'a task with an id that is given, that runs after others, or that an engine adds cannot be added at the isolation level %', current_setting('transaction_isolation')
			using errcode = '25001', hint = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED: at others it does not see which ids were used since it began.';
	end if;
end $$;

-- check_late raises the error TE003 if the time of a new row lies too far in the past.
create or replace function {schema}.check_late(r {schema}.task, p {schema}.type_policy) returns void language plpgsql stable as $$
begin
	if p.max_lateness > 0 and r.created_at - r.ready_at > p.max_lateness then
		raise exception using errcode = 'TE003',
			message = format('the request is too late: its time, %s, lies more than %s s in the past, which is max_lateness of type %s; submit it with a later time, or without one',
				to_char(timestamp '1970-01-01' + r.ready_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), trim_scale(p.max_lateness / 1000000.0), {schema}.readable(r.type));
	end if;
end $$;

-- fresh_id returns an id for a task. Where several databases hold the tasks, it is of a shard
-- that is in this one.
create or replace function {schema}.fresh_id(type text, key text, ordering_key text) returns uuid language plpgsql volatile as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	id     uuid  := {schema}.new_id();
	shard  integer;
begin
	if ordering_key <> '' then
		return {schema}.id_in(id, {schema}.shard_of(convert_to(ordering_key, 'UTF8')));
	elsif shards is null and key <> '' then
		return {schema}.id_in(id, {schema}.shard_of(convert_to(type, 'UTF8') || e'\\x00' || convert_to(key, 'UTF8')));
	elsif shards is null or get_bit(shards, {schema}.shard_of(id)) = 1 then
		return id;
	end if;
	if shards = decode(repeat('00', {shards} / 8), 'hex') then
		raise exception 'this database holds none of the tasks' using errcode = '0A000', hint = 'Add the task in another one, or move shards to this one.';
	end if;
	select n into shard from generate_series(0, {shards} - 1) n where get_bit(shards, n) = 1 order by random() limit 1;
	return {schema}.id_in(id, shard);
end $$;

-- check_home refuses what several databases that hold the tasks could not keep apart.
create or replace function {schema}.check_home(key text, ordering_key text, id uuid) returns void language plpgsql stable as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
begin
	if shards is null then
		return;
	elsif ordering_key <> '' then
		if get_bit(shards, {schema}.shard_of(convert_to(ordering_key, 'UTF8'))) = 0 then
			raise exception 'the tasks of this ordering key are in another database'
				using errcode = '0A000', hint = 'Add the task there, or submit it by the engine.';
		elsif {schema}.shard_of(convert_to(ordering_key, 'UTF8')) <> {schema}.shard_of(id) then
			raise exception 'the id and the ordering key of the task are of different shards, which may be in different databases'
				using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
		end if;
	elsif key <> '' then
		raise exception 'this database holds only some of the tasks, and cannot see whether another has one of this key'
			using errcode = '0A000', hint = 'Leave the key out, give an ordering key, too, or submit the task by the engine.';
	elsif get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task of this id belongs to another database'
			using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
	end if;
end $$;

-- take_key has the key of a row belong to the task with this id, and returns who has it then.
create or replace function {schema}.take_key(r {schema}.task, p_id uuid) returns uuid language plpgsql volatile as $$
declare
	holder uuid;
begin
	loop
		insert into {schema}.key (type, ordering_key, key, id) values (r.type, coalesce(r.ordering_key, ''), r.key, p_id) on conflict do nothing;
		if found then
			return p_id;
		end if;
		select k.id into holder from {schema}.key k where k.type = r.type and k.ordering_key = coalesce(r.ordering_key, '') and k.key = r.key;
		if found then
			return holder;
		end if; -- else it was given back meanwhile
	end loop;
end $$;

-- is_taken reports whether there is a task with this id.
create or replace function {schema}.is_taken(p_id uuid) returns boolean language sql volatile as $$
select exists (select from {schema}.task t where t.id = p_id)
	or exists (select from {schema}.ended e where e.id = p_id and e.ended_at >= {schema}.made_at(p_id))
	or exists (select from {schema}.ended e where e.id = p_id and e.keep < 0)
$$;

-- key_is_taken fails. A program that adds tasks on terms calls it if other tasks have keys of them, and looks at these first.
create or replace function {schema}.key_is_taken() returns void language plpgsql volatile as $$
begin
	raise exception 'another task has the key' using errcode = 'TE004';
end $$;

-- key_was_freed fails. A program that adds tasks calls it if a key that was taken is not taken any more, and tries again.
create or replace function {schema}.key_was_freed() returns uuid language plpgsql volatile as $$
begin
	raise exception 'the task that had the key has given it up meanwhile' using errcode = '40001', hint = 'Try again.';
end $$;

-- document_is_other fails. A program that writes documents in one round trip then reads them before it decides.
create or replace function {schema}.document_is_other() returns void language plpgsql volatile as $$
begin
	raise exception 'a document has another version' using errcode = 'TE005';
end $$;

-- document_id returns the id of the row of a document, as the engine makes it.
create or replace function {schema}.document_id(key text) returns uuid language plpgsql immutable strict as $$
declare
	b bytea := decode('000000000000', 'hex') || substring(sha256(convert_to('taskengine.document', 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8')) from 1 for 10);
begin
	b := set_byte(set_byte(b, 6, 128 | (get_byte(b, 6) & 15)), 8, 128 | (get_byte(b, 8) & 63));
	return {schema}.id_in(encode(b, 'hex')::uuid, {schema}.shard_of(convert_to(coalesce(nullif(substring(key from '\{([^}]*)\}'), ''), key), 'UTF8')));
end $$;

-- put_document writes a document, or deletes it if class is -1, and returns the version that it has then, 0 if it is deleted. If the document has
-- another version than replaces (0 is that it does not exist, null is any version), it is left as it is: conflict is the version that it has. If looks is
-- true, the table of the class may be missing.
create or replace function {schema}.put_document(p_id uuid, shard smallint, p_key bytea, replaces bigint, at bigint, expires bigint, data bytea, ended_at bigint,
	class integer, looks boolean, out made bigint, out conflict bigint) language plpgsql volatile as $$
#variable_conflict use_column
declare
	typ   constant bytea := 'taskengine.document';
	was   {schema}.ended;
	there boolean;
	lives boolean;
begin
	loop
		select * into was from {schema}.ended e where e.id = p_id for update;
		there := found;
		lives := there and was.state = 4 and was.history is null and (was.next_event_at = {none} or was.next_event_at > at);
		if replaces <> (case when lives then was.version else 0 end) then
			conflict := case when lives then was.version else 0 end;
			return;
		end if;
		made := case when lives then was.version + 1 when there then greatest(at, was.version + 1) else greatest(at, 1) end;
		if lives and was.keep = 0 and class = 0 then
			update {schema}.ended e set version = made, updated_at = at, payload = data where e.id = p_id;
			return;
		end if;
		if there then
			delete from {schema}.ended e where e.id = p_id;
			delete from {schema}.key k where {holds:was};
		end if;
		if class < 0 then
			made := 0;
			return;
		end if;
		insert into {schema}.key (type, ordering_key, key, id) values (typ, '', p_key, p_id) on conflict do nothing;
		exit when found; -- otherwise another transaction has added it meanwhile
	end loop;
	if looks and not {schema}.has_room(class, ended_at) then
		class := 2147483646;
	end if;
	-- The table task refuses rows of shards that are elsewhere.
	insert into {schema}.task (id, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, attempt, crashes,
		shard, turn, state, priority, queued, type, grp, key, payload)
	values (p_id, made, nextval('{schema}.task_seq'), case when lives then was.created_at else at end, case when lives then was.created_at else at end, expires, {none}, {none}, at, 0, 0,
		shard, 0, 4, 5, false, typ, '', p_key, data);
	with gone as (delete from {schema}.task t where t.id = p_id returning {columns})
	insert into {schema}.ended ({columns}, ended_at, keep) select {columns:gone}, ended_at, class from gone;
end $$;

-- put_documents writes documents with changes of tasks, as far as the transaction has made these: the changes after which the tasks
-- have the versions made, or have ended. It fails if a document has another version than it is to have. The ids are in their order, each once.
create or replace function {schema}.put_documents(tasks uuid[], made bigint[], ids uuid[], shards smallint[], keys bytea[], replaces bigint[],
	at bigint[], expires bigint[], data bytea[], ended_at bigint[], class integer[]) returns void language plpgsql volatile as $$
declare
	ended constant uuid[] := coalesce(string_to_array(nullif(current_setting('taskengine.ended', true), ''), ',')::uuid[], '{}');
begin
	for i in 1 .. cardinality(ids) loop
		continue when not tasks[i] = any(ended)
			and not exists (select from {schema}.task t where t.id = tasks[i] and t.version = made[i] and t.xmin = pg_current_xact_id()::xid);
		perform {schema}.document_is_other() from {schema}.put_document(ids[i], shards[i], keys[i], replaces[i], at[i], expires[i], data[i], ended_at[i], class[i], false) p
		where p.conflict is not null;
	end loop;
end $$;

-- put adds a row unless its id is taken, and reports whether it did. An id that was made
-- just now is not.
create or replace function {schema}.put(r {schema}.task, fresh boolean) returns boolean language plpgsql volatile as $$
begin
	insert into {schema}.task ({columns}) values ({columns:r}) on conflict (id) do nothing;
	if found and not fresh then -- only now nobody else can add one of this id
		delete from {schema}.task t where t.id = r.id
			and (exists (select from {schema}.ended e where e.id = r.id and e.ended_at >= {schema}.made_at(r.id))
				or exists (select from {schema}.ended e where e.id = r.id and e.keep < 0));
		if not found then
			return true;
		end if;
	elsif found then
		return true;
	end if;
	delete from {schema}.key k where {holds:r}
		and not exists (select from {schema}.task t where t.id = r.id and t.key = r.key and t.type = r.type and t.ordering_key is not distinct from r.ordering_key)
		and not exists (select from {schema}.ended e where e.id = r.id and e.key = r.key and e.type = r.type and e.ordering_key is not distinct from r.ordering_key);
	return false;
end $$;

-- row_of returns the row of a valid request.
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
	r.turn := case when r.ordering_key is null then 0 else 1 end; -- a node makes it the head when the transaction has committed
	r.queued := r.state = 2 and r.turn = 0;
	r.inherits := nullif(p.inherits and r.turn = 1, false);
	r.headers := {schema}.headers_as_bytes(headers);
	r.payload := {schema}.stored(payload);
	-- The values are not read here. A transaction that keeps its snapshot may not see that the type has attributes.
	if p.searched or current_setting('transaction_isolation') <> 'read committed' then
		r.search := {unread};
	end if;
	return r;
end $$;

-- has_only_followers reports whether a column children has nothing but the tasks that run after the task.
create or replace function {schema}.has_only_followers(children bytea) returns boolean language plpgsql immutable as $$
begin
	return children is null or (select s.names = array['taskengine.followers'::bytea] from {schema}.sets_of(children) s);
end $$;

-- on_taken does what a request does whose key the task with this id has. r is the row of the request. It
-- returns the outcome, and null if there is no such task any more.
create or replace function {schema}.on_taken(holder uuid, r {schema}.task, p {schema}.type_policy) returns text language plpgsql volatile as $$
declare
	mode   constant text := coalesce(p.uniq ->> 'on_conflict', 'keep');
	t      {schema}.task;
	starts bigint;
	until  constant bigint := nullif(r.expires_at, {none});
	was    {schema}.ended;
begin
	if p.uniq = '{}' then
		return 'existing';
	elsif mode = 'reject' then
		raise exception using errcode = 'TE002', message = format('the task exists: task %s of type %s has the key %s, and unique.on_conflict of the type is reject',
			holder, {schema}.readable(r.type), to_json({schema}.readable(r.key)));
	elsif mode in ('replace', 'debounce') then
		select * into t from {schema}.task k where k.id = holder for no key update;
	else
		select * into t from {schema}.task k where k.id = holder;
	end if;
	if not found and mode = 'throttle' then
		select * into was from {schema}.ended k where k.id = holder and (k.ended_at >= {schema}.made_at(holder) or k.keep < 0) for no key update;
		if not found or was.key is null then
			return null;
		elsif was.created_at + (p.uniq ->> 'window')::bigint / 1000 > r.created_at then
			return case when was.state = 4 then 'already_done' else 'existing' end;
		end if;
		perform {schema}.check_late(r, p);
		update {schema}.ended k set key = null, version = was.version + 1 where k.id = holder and k.ended_at = was.ended_at and k.keep = was.keep;
		delete from {schema}.key k where {holds:was};
		return null;
	elsif not found then
		if exists (select from {schema}.ended e where e.id = holder and e.state = 4 and (e.ended_at >= {schema}.made_at(holder) or e.keep < 0)) then
			return 'already_done';
		elsif {schema}.is_taken(holder) then
			return 'existing';
		end if;
		return null;
	elsif mode not in ('replace', 'debounce') or t.state not in (1, 2) or t.started_at <> {none} or not {schema}.has_only_followers(t.children) or r.children is not null then
		return 'existing';
	end if;
	if mode = 'debounce' then
		perform {schema}.check_late(r, p);
		t.state := r.state;
		t.ready_at := r.ready_at;
		t.due_at := r.due_at;
		if t.turn = 2 then
			t.turn := 1; -- it takes another seat
		end if;
	elsif t.state = 2 then
		t.due_at := least(r.created_at + nullif(p.queue_timeout, 0), until);
	else
		starts := case
			when t.next_event_at = {none} then null
			when t.next_event_at <> t.expires_at or t.ready_at = t.next_event_at then t.next_event_at
			when t.ready_at > t.next_event_at then t.ready_at end;
		t.due_at := least(starts, until);
	end if;
	update {schema}.task k set version = t.version + 1, updated_at = r.created_at, state = t.state, ready_at = t.ready_at,
		due_at = t.due_at, due_state = case when t.due_at is not null or t.state = 1 then t.state end, next_event_at = coalesce(t.due_at, {none}),
		expires_at = r.expires_at, turn = t.turn, queued = t.state = 2 and t.turn <> 1,
		priority = r.priority, boost = null, inherits = r.inherits, grp = r.grp, headers = r.headers, payload = r.payload, search = r.search, checkpoint = null
	where k.id = holder;
	return 'replaced';
end $$;

-- wake tells the nodes at the commit of a task that is ready; of equal notifications in a transaction one is sent.
create or replace function {schema}.wake(r {schema}.task) returns void language plpgsql volatile as $$
begin
	if r.state <> 2 then
		return;
	elsif r.turn = 1 then
		perform pg_notify({channel}, format('k:%s:%s:%s', r.shard, encode(r.type, 'base64'), encode(r.ordering_key, 'base64')));
	else
		perform pg_notify({channel}, 'w:' || r.shard);
	end if;
end $$;

-- tell_key tells the nodes the ordering key of a task that has given up its seat.
create or replace function {schema}.tell_key(r {schema}.task) returns void language plpgsql volatile as $$
begin
	if r.ordering_key is not null then
		perform pg_notify({channel}, format('k:%s:%s:%s', r.shard, encode(r.type, 'base64'), encode(r.ordering_key, 'base64')));
	end if;
end $$;

-- as_parent returns a new row that has children, and waits until so many of them have ended, or until a time.
create or replace function {schema}.as_parent(r {schema}.task, family bytea, await bigint, until timestamptz, p {schema}.type_policy) returns {schema}.task language plpgsql stable as $$
declare
	until_us constant bigint := {schema}.microseconds(until);
begin
	r.children := family;
	if await = 0 then
		r.woken_by := 4;
		return r;
	elsif until_us <= r.created_at then
		r.woken_by := 2;
		return r;
	end if;
	r.state := 1;
	r.queued := false;
	r.awaits := int4send(19) || convert_to('taskengine.children', 'UTF8');
	r.signals := case when p.queue_timeout > 0 then int8send(p.queue_timeout * 1000) || int8send(0) || int8send(0) end;
	r.due_at := least(until_us, nullif(r.expires_at, {none}));
	r.due_state := 1;
	r.next_event_at := coalesce(r.due_at, {none});
	r.ready_at := coalesce(until_us, case when r.turn = 1 then 253402300799000000 end, r.ready_at); -- it holds back no other of its ordering key
	return r;
end $$;

-- after_problem returns what is wrong with the ids of the tasks after which the task of a request is to run; null if nothing is.
create or replace function {schema}.after_problem(after uuid[], after_any boolean, at timestamptz, id uuid) returns text language sql immutable as $$
select case
	when after_any and coalesce(cardinality(after), 0) = 0 then 'it has after_any, and after names no task'
	when coalesce(cardinality(after), 0) = 0 then null
	when cardinality(after) > 100 then format('after has %s tasks, of 100 allowed: have the task run after one that runs after some of them', cardinality(after))
	when at is not null then 'it has a time, and after: it runs when the tasks of after have ended'
	when array_position(after, null) is not null then 'after has an id that is null'
	when '00000000-0000-0000-0000-000000000000' = any(after) then 'after has an id that is zero'
	when id = any(after) then format('after has the id of the task itself, %s', id)
	when (select min(u::text)::uuid from unnest(after) u) < '00000000-0001-0000-0000-000000000000' then
		format('after has the id %s, which belongs to the engine: no task runs after such a task', (select min(u::text) from unnest(after) u))
	when (select count(distinct u) from unnest(after) u) < cardinality(after) then
		format('after has the task %s twice', (select u from unnest(after) u group by u having count(*) > 1 limit 1))
end
$$;

-- as_follower returns a new row that runs after other tasks: when they are done or, with after_any, have ended.
create or replace function {schema}.as_follower(r {schema}.task, after uuid[], after_any boolean, p {schema}.type_policy) returns {schema}.task language plpgsql stable as $$
declare
	name constant bytea := 'taskengine.after';
begin
	r.children := (select int4send(length(name)) || name || int8send(n) || int8send(0) || int8send(0) || int8send(0) || int8send(n)
			|| int8send(case when after_any then 0 else 1 end) || int4send(0) || int4send(16 * n::integer) || ids
		from (select count(*) as n, string_agg(uuid_send(u), '' order by i) as ids from unnest(after) with ordinality as a (u, i)) a);
	r.state := 1;
	r.queued := false;
	r.awaits := int4send(length(name)) || name;
	r.signals := case when p.queue_timeout > 0 then int8send(p.queue_timeout * 1000) || int8send(0) || int8send(0) end;
	r.due_at := nullif(r.expires_at, {none});
	r.due_state := 1;
	r.next_event_at := r.expires_at;
	if r.turn = 1 then
		r.ready_at := 253402300799000000; -- it holds back no other of its ordering key
	end if;
	return r;
end $$;

-- with_follower returns the column children of a task after which another one runs, too; null if there is no room for that.
create or replace function {schema}.with_follower(children bytea, follower uuid) returns bytea language plpgsql immutable as $$
declare
	wanted constant bytea   := 'taskengine.followers';
	place           integer := 1;
	numbers         integer;
	ids             integer;
	name            bytea;
	n               bigint;
begin
	children := coalesce(children, '');
	while place <= length(children) loop
		name := {schema}.text_in(children, place);
		numbers := place + 4 + length(name);
		ids := numbers + 52 + {schema}.size_in(children, numbers + 48);
		place := ids + 4 + {schema}.size_in(children, ids);
		continue when name <> wanted;
		n := {schema}.number_in(children, numbers);
		for i in 0 .. n - 1 loop
			if substring(children from (ids + 4 + 16 * i)::integer for 16) = uuid_send(follower) then
				return children;
			end if;
		end loop;
		return case when n < 1000 then substring(children from 1 for numbers - 1) || int8send(n + 1) || substring(children from numbers + 8 for ids - numbers - 8)
			|| int4send(place - ids + 12) || substring(children from ids + 4 for place - ids - 4) || uuid_send(follower) || substring(children from place) end;
	end loop;
	return children || int4send(length(wanted)) || wanted || int8send(1) || decode(repeat('00', 44), 'hex') || int4send(16) || uuid_send(follower);
end $$;

-- follow has other tasks know of one that was added to run after them, and tells it of those that have ended.
create or replace function {schema}.follow(follower uuid, after uuid[], wake boolean) returns void language plpgsql volatile as $$
declare
	before uuid;
	t      {schema}.task;
	joined bytea;
	tries  integer;
begin
	perform {schema}.check_isolation();
	for before in select u from unnest(after) u order by u loop
		if exists (select from {schema}.home h where get_bit(h.here, {schema}.shard_of(before)) = 0) then
			raise exception 'the task %, after which it is to run, is in another database', before
				using errcode = '0A000', hint = 'Submit the task by the engine.';
		end if;
		tries := 0;
		loop
			select * into t from {schema}.task k where k.id = before for no key update;
			if found then
				joined := {schema}.with_follower(t.children, follower);
				update {schema}.task k set children = joined where k.id = before and joined is not null;
				exit;
			end if;
			select e.id, e.type, e.state into t.id, t.type, t.state from {schema}.ended e
			where e.id = before and (e.ended_at >= {schema}.made_at(before) or e.keep < 0) limit 1;
			if found then
				joined := '';
				perform {schema}.tell_end(follower, json_build_object('to', follower, 'name', 'taskengine.after', 'index', 0, 'of', before,
					'state', (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[t.state]), 'after', wake);
				exit;
			end if;
			tries := tries + 1; -- one that has ended may be resumed meanwhile
			if tries > 2 then
				raise exception 'task %, after which it is to run, is not in the store: it was removed, or never existed; leave it out of after if the task need not wait for it', before
					using errcode = '22023';
			end if;
		end loop;
		if starts_with({schema}.readable(t.type), 'taskengine.') and {schema}.readable(t.type) <> 'taskengine.workflow' then
			raise exception 'task % is of type %, which belongs to the engine: no task runs after it', before, {schema}.readable(t.type) using errcode = '22023';
		elsif joined is null then
			raise exception 'task % has 1000 tasks that run after it, and there is no room for 1 more, of 1000 allowed: have these run after another task that runs after it', before
				using errcode = '22023';
		end if;
	end loop;
end $$;

-- add_task is add_bytes for a task that may have children: family is its column children, and it waits until so many have ended, or until
-- a time.
create or replace function {schema}.add_task(type text, payload bytea, key text, ordering_key text, priority integer, at timestamptz, expires_at timestamptz,
	headers jsonb, id uuid, wake boolean, after uuid[], after_any boolean, family bytea, await bigint, until timestamptz) returns {schema}.receipt language plpgsql volatile as $$
#variable_conflict use_variable
declare
	fresh   constant boolean := id is null;
	p       {schema}.type_policy;
	problem text;
	holder  uuid;
	done    text;
	r       {schema}.task;
begin
	select * into p from {schema}.type_policy t where t.type in (convert_to(type, 'UTF8'), '') order by t.type desc limit 1;
	headers := nullif(headers, 'null');
	problem := {schema}.problem_of(type, payload, key, ordering_key, priority, at, expires_at, headers, p.max_payload);
	if id = '00000000-0000-0000-0000-000000000000' then
		problem := 'id is zero: leave it out for a new one';
	elsif id < '00000000-0001-0000-0000-000000000000' then
		problem := format('id %s is reserved: ids that begin with 00000000-0000 belong to the engine', id);
	end if;
	problem := coalesce(problem, {schema}.after_problem(after, after_any, at, id));
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	if key is null and p.uniq ? 'by' then
		key := {schema}.key_of(type, p.uniq -> 'by', payload, headers, ordering_key);
	end if;
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	if fresh then
		id := {schema}.fresh_id(type, key, ordering_key);
	else
		perform {schema}.check_isolation();
	end if;
	perform {schema}.check_home(key, ordering_key, id);
	r := {schema}.row_of(id, type, payload, key, ordering_key, priority, at, expires_at, headers, p);
	if family is not null then
		r := {schema}.as_parent(r, family, await, until, p);
	elsif cardinality(after) > 0 then
		r := {schema}.as_follower(r, after, after_any, p);
	end if;
	while r.key is not null loop
		holder := {schema}.take_key(r, id);
		exit when holder = id;
		if not fresh and {schema}.is_taken(id) then -- that says more
			return (id, false, 'existing'::text);
		end if;
		done := {schema}.on_taken(holder, r, p);
		if done is not null then
			if done = 'replaced' then
				select * into r from {schema}.task t where t.id = holder;
				perform {schema}.wake(r) where wake;
			end if;
			return (holder, false, done);
		end if;
	end loop;
	if not {schema}.put(r, fresh) then
		return (id, false, 'existing'::text);
	end if;
	perform {schema}.check_late(r, p);
	perform {schema}.follow(id, after, wake) where cardinality(after) > 0;
	perform {schema}.wake(r) where wake;
	return (id, true, 'created'::text);
end $$;

-- add_bytes adds a task: it is there, and runs, if and only if the transaction commits.
--   type          what is to be done; the only argument that is needed
--   payload       as it is given to the handler
--   key           unique among the type's tasks of the ordering key while they are kept
--   ordering_key  tasks that share it run one at a time
--   priority      0 (sooner) to 9 (later); null for the type's
--   at            not before; null for now
--   expires_at    too late from then on; null for never
--   headers       a JSON object whose members are texts
--   id            chosen by the caller to make the request repeatable; null for a new one
--   wake          whether to tell the nodes at the commit; else they find it within about a
--                 second, and transactions that tell do not wait for each other to commit
--   after         ids of tasks: it runs when all of them are done, and is cancelled if one of them fails or is cancelled; null for at once
--   after_any     it runs when all of them have ended, however
create or replace function {schema}.add_bytes(type text, payload bytea default null, key text default null, ordering_key text default null,
	priority integer default null, at timestamptz default null, expires_at timestamptz default null, headers jsonb default null,
	id uuid default null, wake boolean default true, after uuid[] default null, after_any boolean default false) returns {schema}.receipt language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	return {schema}.add_task(type, payload, key, ordering_key, priority, at, expires_at, headers, id, wake, after, after_any, null, null, null);
end $$;

-- add is add_bytes for a payload in JSON.
create or replace function {schema}.add(type text, payload jsonb default null, key text default null, ordering_key text default null,
	priority integer default null, at timestamptz default null, expires_at timestamptz default null, headers jsonb default null,
	id uuid default null, wake boolean default true, after uuid[] default null, after_any boolean default false) returns {schema}.receipt language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	return {schema}.add_bytes(type, convert_to(payload::text, 'UTF8'), key, ordering_key, priority, at, expires_at, headers, id, wake, after, after_any);
end $$;

-- Adding a task with its children.

-- child_id returns the id of a child, as the engine makes it. name is the hash of the parent and the name.
create or replace function {schema}.child_id(parent uuid, hash bytea, index integer) returns uuid language plpgsql immutable as $$
declare
	b bytea := substring(uuid_send(parent) from 1 for 6) || substring(hash from 1 for 10);
begin
	b := set_byte(set_byte(b, 6, (get_byte(b, 6) & 15) | 128), 8, (get_byte(b, 8) & 63) | 128);
	b := set_byte(set_byte(b, 12, (get_byte(b, 12) & 240) | ((index >> 16) & 15)), 13, (index >> 8) & 255);
	return encode(set_byte(set_byte(b, 14, index & 255), 15, get_byte(b, 15) # (index & 255)), 'hex')::uuid;
end $$;

-- add_child adds a child of a parent that is changed in this transaction, and returns whether it did: the id of the child may be taken.
-- fresh says whether the id of the parent is new, and is_divided whether several databases hold the tasks.
create or replace function {schema}.add_child(parent uuid, name bytea, hash bytea, index integer, of jsonb, fresh boolean, is_divided boolean, wake boolean) returns boolean language plpgsql volatile as $$
declare
	typ     constant text  := of ->> 'type';
	payload constant bytea := convert_to((of -> 'payload')::text, 'UTF8');
	ordered constant text  := of ->> 'ordering_key';
	headers constant jsonb := nullif(of -> 'headers', 'null');
	id      uuid           := {schema}.child_id(parent, hash, index);
	p       {schema}.type_policy;
	problem text;
	r       {schema}.task;
begin
	select * into p from {schema}.type_policy t where t.type in (convert_to(typ, 'UTF8'), '') order by t.type desc limit 1;
	problem := {schema}.problem_of(typ, payload, null, ordered, (of ->> 'priority')::integer, (of ->> 'at')::timestamptz, (of ->> 'expires_at')::timestamptz, headers, p.max_payload);
	if problem is null and p.uniq ? 'by' then
		problem := 'unique.by of its type gives a child a key, so it might not be added: a child has no key';
	elsif problem is null and of - array['type', 'payload', 'ordering_key', 'priority', 'at', 'expires_at', 'headers'] <> '{}' then
		problem := format('it has the member %s, which is none of a child: a child has type, payload, ordering_key, priority, at, expires_at and headers',
			to_json((select m from jsonb_object_keys(of - array['type', 'payload', 'ordering_key', 'priority', 'at', 'expires_at', 'headers']) m limit 1)));
	end if;
	if problem is not null then
		raise exception using errcode = '22023', message = format('child %s: %s', index, problem);
	end if;
	if ordered <> '' then
		id := {schema}.id_in(id, {schema}.shard_of(convert_to(ordered, 'UTF8')));
	elsif is_divided then
		id := {schema}.id_in(id, {schema}.shard_of(parent));
	end if;
	perform {schema}.check_home(null, ordered, id) where is_divided;
	r := {schema}.row_of(id, typ, payload, null, ordered, (of ->> 'priority')::integer, (of ->> 'at')::timestamptz, (of ->> 'expires_at')::timestamptz, headers, p);
	r.parent := uuid_send(parent) || int4send(index) || name;
	if not {schema}.put(r, fresh) then
		return false;
	end if;
	perform {schema}.wake(r) where wake;
	return true;
end $$;

-- shards_of returns the shards of children of a name that are added together, by their ordering keys: empty if they have none.
create or replace function {schema}.shards_of(children jsonb, name text) returns bytea language plpgsql immutable as $$
declare
	shards bytea;
	bound  bigint;
begin
	select count(e ->> 'ordering_key'), string_agg(set_byte('\x00', 0, {schema}.shard_of(convert_to(e ->> 'ordering_key', 'UTF8'))), '' order by n) filter (where e ->> 'ordering_key' is not null)
	into bound, shards from jsonb_array_elements(children) with ordinality as a (e, n);
	if bound not in (0, jsonb_array_length(children)) then
		raise exception using errcode = '22023', message = format('some of the children %s have an ordering key, and others have none: give those another name', to_json(name));
	end if;
	return coalesce(shards, '');
end $$;

-- children_name_problem returns what is wrong with a name of children; null if nothing is.
create or replace function {schema}.children_name_problem(name text) returns text language sql immutable as $$
select format('%s is not a name of children, which is 1 to 100 bytes of printable UTF-8 and does not begin with taskengine.', coalesce(to_json(left(name, 40))::text, 'null'))
where coalesce(octet_length(convert_to(name, 'UTF8')), 0) not between 1 and 100 or name ~ e'[\\x01-\\x1f\\x7f]' or starts_with(name, 'taskengine.')
$$;

-- is_objects reports whether a document is an array of objects.
create or replace function {schema}.is_objects(document jsonb) returns boolean language sql immutable as $$
select case when jsonb_typeof(document) = 'array' then not exists (select from jsonb_array_elements(document) e where jsonb_typeof(e) <> 'object') else false end
$$;

-- add_with_children adds a task and its children: all of them are there if and only if the transaction commits. The task runs when the
-- children have ended. If it is not added, because its key or its id is taken, no child is.
--   type, payload, key, ordering_key, priority, expires_at, headers, id, wake   as in add
--   children    an array of objects with type, payload, ordering_key, priority, at, expires_at and headers
--   name        of the children
--   count       the task runs when so many have ended; null for all that are given
--   or_failed   it also runs when one of them has failed or was cancelled
--   until       when it runs at the latest; null for never
create or replace function {schema}.add_with_children(type text, children jsonb, payload jsonb default null, key text default null, ordering_key text default null,
	priority integer default null, until timestamptz default null, expires_at timestamptz default null, headers jsonb default null,
	id uuid default null, name text default 'child', count integer default null, or_failed boolean default false, wake boolean default true) returns {schema}.receipt language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	fresh      constant boolean := id is null;
	called     constant bytea   := convert_to(name, 'UTF8');
	is_divided constant boolean := exists (select from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	given      integer          := 0;
	shards     bytea;
	problem    text;
	family     bytea;
	hash       bytea;
	added      {schema}.receipt;
	of         jsonb;
begin
	if children is null or not {schema}.is_objects(children) then
		raise exception 'children must be a JSON array of objects' using errcode = '22023';
	end if;
	given := jsonb_array_length(children);
	problem := coalesce({schema}.children_name_problem(name), case
		when given > 1048576 then format('there would be %s children %s, of 1048576 allowed', given, to_json(name))
		when count not between 1 and given then format('it waits for %s children %s, and %s are given', count, to_json(name), given)
		when until not between timestamptz '1970-01-01 00:00:00 UTC' and timestamptz '9999-12-31 23:59:59.999999 UTC' then 'times must lie between the years 1970 and 9999'
	end);
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	shards := {schema}.shards_of(children, name);
	family := int4send(length(called)) || called || int8send(given) || int8send(0) || int8send(0) || int8send(0)
		|| int8send(coalesce(count, given)) || int8send(case when or_failed then 1 else 0 end) || int4send(0) || int4send(length(shards)) || shards;
	added := {schema}.add_task(type, convert_to(payload::text, 'UTF8'), key, ordering_key, priority, null, expires_at, headers, id, wake, null, false, family, coalesce(count, given), until);
	if not added.created then
		return added;
	end if;
	hash := sha256(uuid_send(added.id) || called);
	given := 0;
	for of in select e from jsonb_array_elements(children) with ordinality as a (e, n) order by n loop
		if not {schema}.add_child(added.id, called, hash, given, of, fresh, is_divided, wake) then
			raise exception using errcode = '22023', message = format('child %s is there, although its parent %s was not: another task had this id before, and its children are kept; add it with another id', given, added.id);
		end if;
		given := given + 1;
	end loop;
	return added;
end $$;

-- Signals.

-- carrier_id returns an id in a shard for a task of the engine, which begins with six zero bytes.
create or replace function {schema}.carrier_id(shard integer) returns uuid language plpgsql volatile as $$
declare
	b bytea := overlay(uuid_send(gen_random_uuid()) placing '\x000000000000'::bytea from 1 for 6);
begin
	return {schema}.id_in(encode(set_byte(b, 6, 128 | (get_byte(b, 6) & 15)), 'hex')::uuid, shard);
end $$;

-- carrier_key returns the ordering key of tasks that carry signals to what is named by an address. It is of a shard that is in
-- this database.
create or replace function {schema}.carrier_key(address bytea) returns text language plpgsql stable as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	prefix text  := 'taskengine.relay/' || substring(encode(sha256(address), 'hex') from 1 for 32) || '/';
	n      bigint := 0;
begin
	if shards = decode(repeat('00', {shards} / 8), 'hex') then
		raise exception 'this database holds none of the tasks' using errcode = '0A000', hint = 'Send the signal in another one, or move shards to this one.';
	end if;
	while get_bit(shards, {schema}.shard_of(convert_to(prefix || n, 'UTF8'))) = 0 loop
		n := n + 1;
	end loop;
	return prefix || n;
end $$;

-- signal_bytes sends a signal to a task: it is delivered soon after the commit, if and only if the transaction commits. The task
-- is named by its id, or by its type and key. The answer is the id of the signal.
--   name          of the signal
--   data          as it is given to the handler of the task
--   id            of the task
--   type, key     of the task, if it has no ordering key
--   ordering_key  of the task, with its type and key, if it has one
--   keep          whether a task that does not wait for the signal keeps it; else it is dropped
--   signal_id     a task gets signals of one id once; null for a new one
--   wake          whether to tell the nodes at the commit; else they find it within about a second
create or replace function {schema}.signal_bytes(name text, data bytea default null, id uuid default null, type text default null, key text default null,
	ordering_key text default null, keep boolean default false, signal_id uuid default null, wake boolean default true) returns uuid language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	relay   constant bytea := convert_to('taskengine.relay', 'UTF8');
	zero    constant uuid  := '00000000-0000-0000-0000-000000000000';
	most    bigint;
	problem text;
	address bytea;
	payload bytea;
	ordered text;
	r       {schema}.task;
begin
	most := (select p.max_payload from {schema}.rules_of(convert_to(coalesce(type, 'taskengine.relay'), 'UTF8')) p);
	problem := case
		when coalesce(octet_length(convert_to(name, 'UTF8')), 0) not between 1 and 100 or name ~ e'[\\x01-\\x1f\\x7f]' then
			format('%s is not the name of a signal, which is 1 to 100 bytes of printable UTF-8', coalesce(to_json(left(name, 40))::text, 'null'))
		when starts_with(name, 'taskengine.') then format('%s is not the name of a signal: names that begin with taskengine. belong to the engine', name)
		when id = zero or signal_id = zero then 'an id is zero: leave it out if there is none'
		when (id is null) = (type is null) or (type is null) <> (key is null) or key is null and ordering_key is not null then
			'a signal is sent to the id of a task, or to its type and its key'
		when type = '' or key = '' or ordering_key = '' then 'type, key or ordering key is empty: leave it out if there is none'
		when starts_with(type, 'taskengine.') and type <> 'taskengine.workflow' then format('tasks of type %s belong to the engine and take no signals', left(type, 80))
		when length(data) > most then format('the data of the signal has %s bytes, of %s allowed by max_payload of type %s', length(data), most, coalesce(type, 'taskengine.relay'))
	end;
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	signal_id := coalesce(signal_id, {schema}.new_id());
	address := convert_to('signal', 'UTF8') || '\x00'::bytea || case
		when id is not null then convert_to(id::text, 'UTF8')
		else convert_to(type, 'UTF8') || '\x00'::bytea || convert_to(coalesce(ordering_key, ''), 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8')
	end;
	payload := convert_to('[' || json_strip_nulls(json_build_object('number', 2, 'follows', false, 'signal', json_build_object(
		'to', id, 'type', type, 'ordering_key', ordering_key, 'key', key, 'id', signal_id, 'name', name,
		'data', replace(encode(data, 'base64'), e'\n', ''), 'keep', coalesce(keep, false))))::text || ']', 'UTF8');
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	ordered := {schema}.carrier_key(address);
	r := {schema}.row_of({schema}.carrier_id({schema}.shard_of(convert_to(ordered, 'UTF8'))), 'taskengine.relay', payload, null, ordered,
		null, null, null, null, {schema}.rules_of(relay));
	r.grp := convert_to('signal', 'UTF8');
	perform {schema}.put(r, true);
	perform {schema}.wake(r) where wake;
	return signal_id;
end $$;

-- signal is signal_bytes for data in JSON.
create or replace function {schema}.signal(name text, data jsonb default null, id uuid default null, type text default null, key text default null,
	ordering_key text default null, keep boolean default false, signal_id uuid default null, wake boolean default true) returns uuid language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	return {schema}.signal_bytes(name, convert_to(data::text, 'UTF8'), id, type, key, ordering_key, keep, signal_id, wake);
end $$;

-- tell_end inserts a task of the engine that tells another task how a task has ended.
create or replace function {schema}.tell_end(p_to uuid, ended json, grp text, wake boolean) returns void language plpgsql volatile as $$
declare
	relay   constant text := 'taskengine.relay';
	ordered constant text := {schema}.carrier_key(convert_to('child', 'UTF8') || '\x00'::bytea || convert_to(p_to::text, 'UTF8'));
	t       {schema}.task;
begin
	t := {schema}.row_of({schema}.carrier_id({schema}.shard_of(convert_to(ordered, 'UTF8'))), relay, null, null, ordered,
		null, null, null, jsonb_build_object('end', ended::text), {schema}.rules_of(convert_to(relay, 'UTF8')));
	t.grp := convert_to(grp, 'UTF8');
	perform {schema}.put(t, true);
	perform {schema}.wake(t) where wake;
end $$;

-- report_end tells its parent that the task of a row is done. A parent is the id of it, the number of the child in four bytes, and the name
-- of the children.
create or replace function {schema}.report_end(r {schema}.task, wake boolean) returns void language plpgsql volatile as $$
declare
	parent constant uuid := encode(substring(r.parent from 1 for 16), 'hex')::uuid;
begin
	perform {schema}.tell_end(parent, json_build_object('to', parent, 'name', {schema}.readable(substring(r.parent from 21)),
		'index', ('x' || encode(substring(r.parent from 17 for 4), 'hex'))::bit(32)::bigint, 'state', 'done'), 'child', wake);
end $$;

-- tell_followers tells the tasks that run after the task of a row that it is done.
create or replace function {schema}.tell_followers(r {schema}.task, children bytea, wake boolean) returns void language plpgsql volatile as $$
declare
	has  constant record := {schema}.sets_of(children);
	part constant bytea := has.sets[array_position(has.names, 'taskengine.followers'::bytea)];
	ids  bytea;
	name uuid;
begin
	if part is null then
		return;
	end if;
	ids := substring(part from 57 + {schema}.size_in(part, 49));
	for place in 1 .. length(ids) by 16 loop
		name := encode(substring(ids from place for 16), 'hex')::uuid;
		perform {schema}.tell_end(name, json_build_object('to', name, 'name', 'taskengine.after', 'index', 0, 'of', r.id, 'state', 'done'), 'after', wake);
	end loop;
end $$;

-- is_followed fails. A program that ends a task in one statement calls it if others run after the task, and reads the task first.
create or replace function {schema}.is_followed() returns boolean language plpgsql volatile as $$
begin
	raise exception 'other tasks run after a task that ends' using errcode = 'TE005';
end $$;

-- Documents. A transaction that ends an attempt writes documents by these functions, too: they are written if and only if the attempt has ended so.

-- write_one writes a document, or deletes it, and returns the version that it has then, 0 if it is deleted.
create or replace function {schema}.write_one(key text, data bytea, if_version bigint, expires_at timestamptz, is_deleted boolean) returns bigint language plpgsql volatile as $$
#variable_conflict use_variable
declare
	bytes   constant integer := octet_length(convert_to(key, 'UTF8'));
	now_us  constant bigint  := {schema}.microseconds(clock_timestamp());
	until   bigint;
	class   integer;
	id      uuid;
	problem text;
	wrote   record;
begin
	problem := case
		when coalesce(key, '') = '' then 'the key of a document is missing'
		when bytes > 500 then format('the key of a document has %s bytes, of 500 allowed', bytes)
		when key ~ e'[\\x01-\\x1f\\x7f]' then 'the key of a document has characters that cannot be printed'
		when length(data) > 262144 then format('the document %s: the data has %s bytes, of 262144 allowed', to_json(left(key, 80)), length(data))
		when is_deleted and (length(data) > 0 or expires_at is not null) then format('the document %s: it is to be deleted, and has data or a time', to_json(left(key, 80)))
		when if_version < 0 then format('the document %s: if_version is %s, and not a version, or 0 for a document that does not exist', to_json(left(key, 80)), if_version)
		when expires_at not between timestamptz '1970-01-01 00:00:00 UTC' and timestamptz '9999-12-31 23:59:59.999999 UTC' then
			format('the document %s: times must lie between the years 1970 and 9999', to_json(left(key, 80)))
	end;
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	id := {schema}.document_id(key);
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	if exists (select from {schema}.home h where get_bit(h.here, {schema}.shard_of(id)) = 0) then
		raise exception using errcode = '0A000', message = format('the document %s is in another database', to_json(left(key, 80))),
			hint = 'Write it there, or by the engine; a part of a key in braces decides where a document is.';
	end if;
	until := coalesce({schema}.microseconds(expires_at), {none});
	class := case when is_deleted then -1 when expires_at is null then 0 else {schema}.class_of(until - now_us) end;
	wrote := {schema}.put_document(id, {schema}.shard_of(id)::smallint, convert_to(key, 'UTF8'), if_version, now_us, until, {schema}.stored(data), now_us, class, true);
	if wrote.conflict is not null then
		raise exception using errcode = 'TE006', message = case
				when wrote.conflict = 0 then format('the document %s does not exist any more, and its version %s was to be replaced', to_json(key), if_version)
				when if_version = 0 then format('the document %s exists, with version %s, and was to be created', to_json(key), wrote.conflict)
				else format('the document %s has version %s, and version %s was to be replaced', to_json(key), wrote.conflict, if_version)
			end,
			hint = 'Roll the transaction back, read the document again, and decide anew.';
	end if;
	return wrote.made;
end $$;

-- write_document_bytes writes a document, and returns the version that it has then: it has the data if and only if the transaction commits.
--   key         of the document
--   data        at most 256 KiB
--   if_version  the version that the document has to have, 0 if it must not exist; else the function fails with TE006. Null for any version
--   expires_at  when the document ends; null for never
create or replace function {schema}.write_document_bytes(key text, data bytea, if_version bigint default null, expires_at timestamptz default null) returns bigint language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	return {schema}.write_one(key, data, if_version, expires_at, false);
end $$;

-- write_document is write_document_bytes for data in JSON.
create or replace function {schema}.write_document(key text, data jsonb, if_version bigint default null, expires_at timestamptz default null) returns bigint language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	return {schema}.write_document_bytes(key, convert_to(data::text, 'UTF8'), if_version, expires_at);
end $$;

-- delete_document deletes a document, whether it exists or not. if_version is as in write_document_bytes.
create or replace function {schema}.delete_document(key text, if_version bigint default null) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	perform {schema}.write_one(key, null, if_version, null, true);
end $$;

-- write_documents writes up to 16 documents, or none of them. Transactions that write the same documents by it do not deadlock.
--   documents  an array of objects with key, data, if_version and expires_at as in write_document, or with key, delete and if_version
create or replace function {schema}.write_documents(documents jsonb) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
declare
	members constant text[] := array['key', 'data', 'delete', 'if_version', 'expires_at'];
	problem text;
	of      jsonb;
begin
	if documents is null or not {schema}.is_objects(documents) then
		raise exception 'documents must be a JSON array of objects' using errcode = '22023';
	elsif jsonb_array_length(documents) > 16 then
		raise exception using errcode = '22023', message = format('there are %s documents, of 16 allowed', jsonb_array_length(documents));
	end if;
	for of in select e from jsonb_array_elements(documents) e loop
		problem := case
			when of - members <> '{}' then format('it has the member %s: it has key, data, delete, if_version and expires_at', to_json((select m from jsonb_object_keys(of - members) m limit 1)))
			when jsonb_typeof(of -> 'key') not in ('string', 'null') then format('its key is %s, and not text', of -> 'key')
			when jsonb_typeof(of -> 'delete') not in ('boolean', 'null') then format('its member delete is %s, and neither true nor false', of -> 'delete')
			when case jsonb_typeof(of -> 'if_version') when 'number' then (of ->> 'if_version')::numeric not between 0 and 9223372036854775807 or (of ->> 'if_version')::numeric % 1 <> 0
				else of ->> 'if_version' is not null end then format('its if_version is %s, and not a version, or 0 for a document that does not exist', of -> 'if_version')
			when (select count(*) from jsonb_array_elements(documents) e where e ->> 'key' = of ->> 'key') > 1 then 'it is there twice'
		end;
		if problem is not null then
			raise exception using errcode = '22023', message = format('the document %s: %s', coalesce(to_json(left(of ->> 'key', 80))::text, '(no key)'), problem);
		end if;
	end loop;
	for of in select e from jsonb_array_elements(documents) e order by {schema}.document_id(e ->> 'key') loop
		perform {schema}.write_one(of ->> 'key', convert_to((of -> 'data')::text, 'UTF8'), (of ->> 'if_version')::bigint, (of ->> 'expires_at')::timestamptz, coalesce((of ->> 'delete')::boolean, false));
	end loop;
end $$;

-- Ending attempts. A handler ends its attempt from SQL by the functions finish, again and wait, their forms with children, and
-- their forms for bytes, in the transaction in which it writes its data. They do to the row what the engine does.

-- attempt_of returns and locks the row of a running attempt. If the attempt does not count any more, it
-- raises the error TE001, which says why.
create or replace function {schema}.attempt_of(id uuid, version bigint) returns {schema}.task language plpgsql volatile as $$
#variable_conflict use_variable
declare
	shards bytea;
	r      {schema}.task;
begin
	if id is null or version is null then
		raise exception 'id and version must be those of the task that the handler got' using errcode = '22023';
	end if;
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	select * into r from {schema}.task t where t.id = id and t.version = version and t.state = 3 for no key update;
	if found then
		if substring(r.type from 1 for 11) = convert_to('taskengine.', 'UTF8') then
			raise exception 'the task % belongs to the engine, which ends its attempts itself', id using errcode = '22023';
		end if;
		return r;
	end if;
	select h.here into shards from {schema}.home h;
	if get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task % is in another database', id
			using errcode = '0A000', hint = 'Keep data that is written with the end of a task in the database that has the task.';
	end if;
	select * into r from {schema}.task t where t.id = id;
	if not found then
		select e.state, e.version into r.state, r.version from {schema}.ended e
		where e.id = id and (e.ended_at >= {schema}.made_at(id) or e.keep < 0) limit 1;
	end if;
	raise exception using errcode = 'TE001',
		message = format('the attempt of version %s of the task %s is over: ', version, id) || case
			when r.state is null then 'there is no such task any more'
			else format('the task is %s, at version %s', (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[r.state], r.version)
		end,
		hint = 'Roll the transaction back: another attempt, or a change of the task, counts instead of this attempt.';
end $$;

-- rules_of returns what the nodes say of a type.
create or replace function {schema}.rules_of(p_type bytea) returns {schema}.type_policy language sql stable as $$
select * from {schema}.type_policy t where t.type in (p_type, '') order by t.type desc limit 1
$$;

create or replace function {schema}.check_result(result bytea, p_type bytea, most bigint) returns void language plpgsql immutable as $$
begin
	if length(result) > most then
		raise exception using errcode = '22023',
			message = format('the result has %s bytes, and max_result of the type %s allows %s', length(result), {schema}.readable(p_type), most);
	end if;
end $$;

-- since_of returns in which table a row of ended is: since when, in seconds, rows belong
-- there. It is one expression, so that it costs no call.
create or replace function {schema}.since_of(keep integer, ended_at bigint) returns bigint language sql immutable as $$
select case
	when keep = 2147483646 then 0 -- see ended_2147483646_0
	when ended_at >= 0 then ended_at / 1000000 - ended_at / 1000000 % (case keep when 0 then 10368000 else abs(keep) end / 4)
	else (ended_at - (ended_at % (case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)
		+ case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)
		% (case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)) / 1000000
end
$$;

-- class_of returns the number of the class of tasks that are kept for so many microseconds.
create or replace function {schema}.class_of(kept bigint) returns integer language sql immutable as $$
select coalesce(
	(select min(k) from unnest(array[3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 432000, 604800, 864000, 1209600, 1814400,
		2592000, 3888000, 5184000, 7776000, 10368000, 15552000, 23328000, 34560000]) k where kept <= k::bigint * 1000000),
	least((kept / 31536000000000 + 1) * 31536000, 2147483647)::integer)
$$;

-- part_of returns the name of the partition of parent that is called name, perhaps with an x and a
-- number, or else a name that is free for it. A transaction may not see in the catalog what others have
-- made since it began; to_regclass does.
create or replace function {schema}.part_of(parent text, name text, out part text, out attached boolean) language plpgsql volatile as $$
declare
	other regclass;
begin
	select c.relname into part from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid
	where c.relnamespace = to_regnamespace({schema_literal}) and c.relname ~ ('^' || name || '(x[0-9]+)?$')
		and i.inhparent = to_regclass({schema_literal} || '.' || quote_ident(parent)) and not i.inhdetachpending;
	attached := found;
	for n in 1 .. 1000000 loop
		exit when attached;
		part := name || case n when 1 then '' else 'x' || n end;
		other := to_regclass({schema_literal} || '.' || quote_ident(part));
		exit when other is null;
		attached := coalesce(pg_partition_root(other) = to_regclass({schema_literal} || '.ended'), false);
	end loop;
end $$;

-- has_room reports whether there is the partition of ended for tasks of a class that end at a time, and has the
-- transaction see it.
create or replace function {schema}.has_room(class integer, ended_at bigint) returns boolean language plpgsql volatile as $$
declare
	name   constant text   := 'ended_' || case when class < 0 then 'early_' else '' end || case when class = -10368001 then 0 else abs(class) end;
	since  constant bigint := {schema}.since_of(class, ended_at);
	parent record;
	part   record;
begin
	parent := {schema}.part_of('ended', name);
	if not parent.attached then
		return false;
	end if;
	part := {schema}.part_of(parent.part, name || '_' || since);
	if part.attached then
		execute format('lock table only %s.%I in access share mode', {schema_literal}, part.part);
	end if;
	return part.attached;
end $$;

-- finish_bytes ends an attempt: its task is done, if and only if the transaction commits.
--   id, version   those of the task that the handler got: they name the attempt
--   result        of the task
--   wake          whether to tell the nodes, at the commit, that the next task of the ordering key may
--                 run; else they find it within about a second
create or replace function {schema}.finish_bytes(id uuid, version bigint, result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	r        {schema}.task        := {schema}.attempt_of(id, version);
	p        {schema}.type_policy := {schema}.rules_of(r.type);
	now_us   constant bigint      := {schema}.microseconds(clock_timestamp());
	forgets  constant boolean     := p.keep_done = 0 and p.remember > 0 and r.key is not null;
	until    constant bigint      := case when forgets then now_us + p.remember when p.keep_done < 0 then {none} else now_us + p.keep_done end;
	made     constant bigint      := {schema}.made_at(id);
	early    constant boolean     := made > now_us + 3600000000;
	ended_at bigint               := case when early then now_us else greatest(now_us, made) end;
	class    integer              := case when p.keep_done < 0 then 0 else {schema}.class_of(until - ended_at) end;
	family   constant bytea       := r.children;
begin
	perform {schema}.check_result(result, r.type, p.max_result);
	if forgets then
		r.headers := null;
		r.progress := null;
		r.history := null;
		r.children := null;
		r.payload := null;
		r.search := null;
		result := null;
	end if;
	if p.keep_done = 0 and not forgets then
		delete from {schema}.task t where t.id = id;
		delete from {schema}.key k where {holds:r};
	else
		if early then
			class := case class when 0 then -10368001 else -class end;
		end if;
		if not {schema}.has_room(class, ended_at) then
			class := 2147483646;
			ended_at := greatest(now_us, made);
		end if;
		delete from {schema}.task t where t.id = id;
		insert into {schema}.ended (id, owner, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, due_at,
			attempt, crashes, shard, turn, state, priority, boost, due_state, queued, inherits, tombstone,
			type, grp, key, ordering_key, node, headers, progress, error, history, parent, search, children, checkpoint, payload, result, ended_at, keep)
		values (id, null, version + 1, r.seq, r.created_at, r.ready_at, until, r.expires_at, r.started_at, now_us, null,
			r.attempt, 0, r.shard, 0, 4, r.priority + coalesce(r.boost, 0), null, null, false, r.inherits, nullif(forgets, false),
			r.type, r.grp, r.key, r.ordering_key, r.node, r.headers, r.progress, null, r.history, r.parent, r.search, r.children, null, r.payload, {schema}.stored(result), ended_at, class);
	end if;
	if r.parent is not null then
		perform {schema}.report_end(r, wake);
	end if;
	if family is not null then
		perform {schema}.tell_followers(r, family, wake);
	end if;
	if wake then
		perform {schema}.tell_key(r);
	end if;
end $$;

-- finish is finish_bytes for a result in JSON.
create or replace function {schema}.finish(id uuid, version bigint, result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.finish_bytes(id, version, convert_to(result::text, 'UTF8'), wake);
end $$;

-- A number of eight bytes, and a text after its length in four bytes, in a column that has several values,
-- from a byte that is counted from 1.
create or replace function {schema}.number_in(b bytea, place integer) returns bigint language sql immutable as $$
select ('x' || encode(substring(b from place for 8), 'hex'))::bit(64)::bigint
$$;

create or replace function {schema}.text_in(b bytea, place integer) returns bytea language sql immutable as $$
select substring(b from place + 4 for ('x' || encode(substring(b from place for 4), 'hex'))::bit(32)::integer)
$$;

-- past_of returns the attempts in a history: when they began and ended, how, and where they are in it.
create or replace function {schema}.past_of(history bytea, out began bigint[], out ended bigint[], out outcome integer[], out places integer[]) language plpgsql immutable as $$
declare
	place integer := 1;
begin
	began := '{}';
	ended := '{}';
	outcome := '{}';
	places := '{}';
	while place <= length(history) loop
		places := places || place;
		outcome := outcome || ({schema}.number_in(history, place) & 255)::integer;
		began := began || {schema}.number_in(history, place + 8);
		ended := ended || {schema}.number_in(history, place + 16);
		place := place + 28 + length({schema}.text_in(history, place + 24)); -- the node
		place := place + 4 + length({schema}.text_in(history, place)); -- the error
	end loop;
end $$;

-- with_attempt returns a history with an attempt that ends now, without the oldest ones if it becomes too long.
create or replace function {schema}.with_attempt(history bytea, number integer, started_at bigint, ended_at bigint, node bytea, outcome integer, error bytea) returns bytea language plpgsql immutable as $$
declare
	places integer[] := (select p.places from {schema}.past_of(history) p);
	n      integer   := cardinality(places);
begin
	return case when n < 20 then coalesce(history, '') else substring(history from places[n - 18]) end
		|| int8send(number::bigint << 8 | outcome) || int8send(started_at) || int8send(ended_at)
		|| int4send(coalesce(length(node), 0)) || coalesce(node, '') || int4send(coalesce(length(error), 0)) || coalesce(error, '');
end $$;

-- The minimum delay of a task that asked n times in a row to run again at once, in microseconds.
create or replace function {schema}.rearm_delay(n integer) returns bigint language sql immutable as $$
select least(10000::bigint << least(n, 13), 60000000)
$$;

-- rearms_of returns how many attempts in a row asked to run again at once, as the engine counts them.
create or replace function {schema}.rearms_of(began bigint[], ended bigint[], outcome integer[], started_at bigint) returns integer language plpgsql immutable as $$
declare
	n     integer := 0;
	later bigint;
	rest  bigint;
	took  bigint;
begin
	for i in 1 .. cardinality(outcome) loop
		if outcome[i] not in (0, 4) then -- it neither completed nor snoozed
			n := 0;
			continue;
		end if;
		later := coalesce(began[i + 1], started_at);
		rest := later - ended[i];
		took := later - began[i];
		if i = 1 and cardinality(outcome) = 20 then
			while {schema}.rearm_delay(n) < 60000000 and rest >= {schema}.rearm_delay(n + 1) - 1000 loop
				n := n + 1;
			end loop;
		end if;
		n := case
			when rest >= {schema}.rearm_delay(n) - 1000 and took < 2 * {schema}.rearm_delay(n) + 50000 then n + 1
			when rest >= {schema}.rearm_delay(0) - 1000 and took < 2 * {schema}.rearm_delay(0) + 50000 then 1
			else 0
		end;
	end loop;
	return n;
end $$;

-- next_run returns when a task becomes due whose handler asks to run again at a time.
create or replace function {schema}.next_run(r {schema}.task, at_us bigint, now_us bigint) returns bigint language plpgsql immutable as $$
declare
	past record  := {schema}.past_of(r.history);
	last integer := cardinality(past.outcome);
	n    integer := {schema}.rearms_of(past.began, past.ended, past.outcome, r.started_at);
	lag  bigint  := case when past.outcome[last] = 0 then past.ended[last] - r.ready_at else 0 end;
begin
	if lag - (now_us - at_us) >= 1000000 then -- it catches up with its times
		n := 0;
	end if;
	return greatest(at_us, now_us + {schema}.rearm_delay(n));
end $$;

-- adds_of returns the children that an attempt adds, as family_with reads them. was is the column children of its task; children is an object,
-- whose members are the names with arrays of children. It returns null if there are none.
create or replace function {schema}.adds_of(was bytea, children jsonb) returns bytea language plpgsql immutable as $$
declare
	has     constant record := {schema}.sets_of(was);
	names   integer := cardinality(has.names);
	adds    bytea;
	name    text;
	given   jsonb;
	at      integer;
	before  bigint;
	shards  bytea;
	problem text;
begin
	if jsonb_typeof(children) <> 'object' then
		raise exception 'children must be a JSON object with arrays of objects as members' using errcode = '22023';
	end if;
	for name, given in select e.key, e.value from jsonb_each(children) e loop
		if not {schema}.is_objects(given) then
			raise exception using errcode = '22023', message = format('children %s must be a JSON array of objects', to_json(left(name, 40)));
		end if;
		at := array_position(has.names, convert_to(name, 'UTF8'));
		before := coalesce({schema}.number_in(has.sets[at], 1), 0);
		problem := coalesce({schema}.children_name_problem(name), case when before + jsonb_array_length(given) > 1048576 then
			format('there would be %s children %s, of 1048576 allowed', before + jsonb_array_length(given), to_json(name)) end);
		if problem is not null then
			raise exception using errcode = '22023', message = problem;
		end if;
		continue when given = '[]';
		shards := {schema}.shards_of(given, name);
		if before > 0 and (shards <> '') <> ({schema}.size_in(has.sets[at], 53 + {schema}.size_in(has.sets[at], 49)) > 0) then
			raise exception using errcode = '22023', message = format('some of the children %s have an ordering key, and others have none: give those another name', to_json(name));
		end if;
		names := names + case when at is null then 1 else 0 end;
		adds := coalesce(adds, '') || int4send(octet_length(convert_to(name, 'UTF8'))) || convert_to(name, 'UTF8') || int8send(before) || int8send(jsonb_array_length(given))
			|| int4send(length(shards)) || shards;
	end loop;
	if names > 1000 then
		raise exception using errcode = '22023', message = format('the children would have %s names, of 1000 allowed', names);
	end if;
	return adds;
end $$;

-- add_to adds children of a task whose attempt ends. was is its column children before. An id that is taken adds nothing, as it does in the engine.
create or replace function {schema}.add_to(parent uuid, was bytea, children jsonb, wake boolean) returns void language plpgsql volatile as $$
declare
	is_divided constant boolean := exists (select from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	has        constant record  := {schema}.sets_of(was);
	name       text;
	given      jsonb;
	called     bytea;
	hash       bytea;
	index      integer;
	of         jsonb;
begin
	perform {schema}.check_isolation();
	for name, given in select e.key, e.value from jsonb_each(children) e loop
		called := convert_to(name, 'UTF8');
		hash := sha256(uuid_send(parent) || called);
		index := coalesce({schema}.number_in(has.sets[array_position(has.names, called)], 1), 0);
		for of in select e from jsonb_array_elements(given) with ordinality as a (e, n) order by n loop
			perform {schema}.add_child(parent, called, hash, index, of, false, is_divided, wake);
			index := index + 1;
		end loop;
	end loop;
end $$;

-- waits_of returns waits for children as family_with reads them. They are an array of objects with name, count and or_failed.
create or replace function {schema}.waits_of(waits jsonb) returns bytea language plpgsql immutable as $$
declare
	problem text;
	of      jsonb;
	packed  bytea := '';
begin
	problem := case
		when not {schema}.is_objects(waits) then 'waits must be a JSON array of objects'
		when waits = '[]' then 'no name of children is given'
		when jsonb_array_length(waits) > 1000 then format('%s names of children are given, of 1000 allowed', jsonb_array_length(waits))
	end;
	for of in select e from jsonb_array_elements(waits) with ordinality as a (e, n) where problem is null order by n loop
		problem := coalesce({schema}.children_name_problem(of ->> 'name'), case
			when of - array['name', 'count', 'or_failed'] <> '{}' then
				format('a wait has the member %s: it has name, count and or_failed', to_json((select m from jsonb_object_keys(of - array['name', 'count', 'or_failed']) m limit 1)))
			when case jsonb_typeof(of -> 'count') when 'number' then (of ->> 'count')::numeric not between 0 and 4294967295 or (of ->> 'count')::numeric % 1 <> 0 else of ->> 'count' is not null end then
				format('it waits for %s children %s, and not for a number of them', of -> 'count', of -> 'name')
			when jsonb_typeof(of -> 'or_failed') not in ('boolean', 'null') then format('or_failed of the children %s is %s, and neither true nor false', of -> 'name', of -> 'or_failed')
			when (select count(*) from jsonb_array_elements(waits) e where e ->> 'name' = of ->> 'name') > 1 then format('the children %s are given twice', of -> 'name')
		end);
		exit when problem is not null;
		packed := packed || int4send(octet_length(convert_to(of ->> 'name', 'UTF8'))) || convert_to(of ->> 'name', 'UTF8') || int8send(coalesce((of ->> 'count')::bigint, 0))
			|| int8send(case when (of ->> 'or_failed')::boolean then 1 else 0 end);
	end loop;
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	return packed;
end $$;

-- names_of returns the column awaits of a task that waits for signals of these names, and for children if for_children says so.
create or replace function {schema}.names_of(signals text[], for_children boolean) returns bytea language plpgsql immutable as $$
declare
	names  constant text[] := case when for_children then array['taskengine.children'] else '{}' end || signals;
	name   text;
	packed bytea := '';
begin
	if cardinality(names) > 20 then
		raise exception using errcode = '22023', message = format('%s names of signals are given, of %s allowed', cardinality(signals), 20 - cardinality(names) + cardinality(signals));
	elsif array_ndims(signals) > 1 then
		raise exception 'signals must be an array of one dimension' using errcode = '22023';
	end if;
	foreach name in array signals loop
		if coalesce(octet_length(convert_to(name, 'UTF8')), 0) not between 1 and 100 or name ~ e'[\\x01-\\x1f\\x7f]' then
			raise exception using errcode = '22023', message = format('%s is not the name of a signal, which is 1 to 100 bytes of printable UTF-8', coalesce(to_json(left(name, 40))::text, 'null'));
		elsif starts_with(name, 'taskengine.') then
			raise exception using errcode = '22023', message = format('%s is not the name of a signal: names that begin with taskengine. belong to the engine', to_json(name));
		end if;
	end loop;
	foreach name in array names loop
		packed := packed || int4send(octet_length(convert_to(name, 'UTF8'))) || convert_to(name, 'UTF8');
	end loop;
	return packed;
end $$;

-- goes_on ends an attempt of a task that goes on: at a time or, if names is not null, when a signal of these names comes, when one of the waits for
-- children is over, or at a time, which may be null then.
create or replace function {schema}.goes_on(id uuid, version bigint, names bytea, waits bytea, at timestamptz, payload bytea, checkpoint bytea,
	result bytea, children jsonb, wake boolean) returns void language plpgsql volatile as $$
#variable_conflict use_variable
declare
	r        {schema}.task        := {schema}.attempt_of(id, version);
	p        {schema}.type_policy := {schema}.rules_of(r.type);
	now_us   constant bigint      := {schema}.microseconds(clock_timestamp());
	was      constant bytea       := r.children;
	adds     constant bytea       := {schema}.adds_of(was, children);
	patience constant bigint      := greatest(p.queue_timeout, 0) * 1000;
	due      bigint;
	is_met   boolean              := false;
begin
	perform {schema}.check_result(result, r.type, p.max_result);
	if at is null and names is null then
		raise exception 'at is missing: the function finish has a task done' using errcode = '22023';
	elsif at not between timestamptz '1970-01-01 00:00:00 UTC' and timestamptz '9999-12-31 23:59:59.999999 UTC' then
		raise exception '% must lie between the years 1970 and 9999', case when names is null then 'at' else 'until' end using errcode = '22023';
	elsif length(payload) > p.max_payload then
		raise exception using errcode = '22023', message = format('payload has %s bytes, of %s allowed by max_payload of type %s', length(payload), p.max_payload, {schema}.readable(r.type));
	elsif length(checkpoint) > 1048576 then
		raise exception using errcode = '22023', message = format('checkpoint has %s bytes, of 1048576 allowed', length(checkpoint));
	end if;
	if payload is not null then
		r.grp := {schema}.group_with(r, payload, p.keyed);
		r.search := case when p.searched then {unread} else r.search end;
	end if;
	due := case when at is not null then {schema}.next_run(r, {schema}.microseconds(at), now_us) else {none} end;
	r.ready_at := case
		when at is null and r.turn = 0 then r.ready_at
		when at is null then 253402300799000000
		when r.turn = 0 then {schema}.microseconds(at)
		else due -- one that holds back others is ready when it is due
	end;
	r.state := 1;
	r.woken_by := null;
	if adds is not null or waits is not null then
		select f.children, f.is_met into r.children, is_met from {schema}.family_with(coalesce(was, ''), coalesce(adds, ''), coalesce(waits, '')) f;
	end if;
	if names is null then
		r.expires_at := {none};
	else
		select w.signals, w.woken_by into r.signals, r.woken_by from {schema}.wait_of(names, coalesce(r.signals, ''), patience, is_met) w;
		if r.woken_by is not null then
			r.state := 2;
			r.ready_at := now_us;
			due := coalesce(now_us + nullif(p.queue_timeout, 0), {none});
		end if;
		if r.expires_at <> {none} then
			due := coalesce(least(nullif(due, {none}), r.expires_at), {none});
		end if;
	end if;
	r.turn := least(r.turn, 1);
	r.due_state := case when r.state = 1 or due <> {none} then r.state end;
	update {schema}.task t set
		version = version + 1, state = r.state, owner = null, queued = r.state = 2 and r.turn <> 1, attempt = 0, crashes = 0,
		ready_at = r.ready_at, next_event_at = due, due_at = case when r.due_state is not null then nullif(due, {none}) end, due_state = r.due_state,
		expires_at = r.expires_at, updated_at = now_us, turn = r.turn, priority = r.priority + coalesce(r.boost, 0), boost = null,
		awaits = case when r.woken_by is null then names end, woken_by = r.woken_by,
		signals = case when names is null then t.signals else r.signals end, children = case when adds is null and waits is null then t.children else r.children end,
		history = {schema}.with_attempt(r.history, r.attempt, r.started_at, now_us, r.node, 0, null), checkpoint = {schema}.stored(checkpoint), result = {schema}.stored(result),
		payload = case when payload is null then t.payload else {schema}.stored(payload) end, grp = r.grp, search = r.search
	where t.id = id;
	if adds is not null then
		perform {schema}.add_to(id, was, children, wake);
	end if;
	if wake then
		perform {schema}.tell_key(r);
		perform {schema}.wake(r);
	end if;
end $$;

-- begins_wait ends an attempt of a task that waits, see wait_bytes and wait_with_children_bytes.
create or replace function {schema}.begins_wait(id uuid, version bigint, signals text[], waits jsonb, until timestamptz, payload bytea, checkpoint bytea,
	result bytea, children jsonb, wake boolean) returns void language plpgsql volatile as $$
#variable_conflict use_variable
begin
	waits := nullif(waits, 'null');
	if signals = '{}' and waits is null then
		raise exception 'no name of a signal is given' using errcode = '22023';
	elsif signals is null and waits is null and jsonb_typeof(children) = 'object' then
		waits := (select jsonb_agg(jsonb_build_object('name', k)) from jsonb_object_keys(children) k);
		if jsonb_array_length(waits) > 1 then
			raise exception 'the children have several names, and it is not said for which it waits' using errcode = '22023';
		end if;
	end if;
	if signals is null and waits is null then
		raise exception 'no name of a signal or of children is given: the function again has a task run again at a time' using errcode = '22023';
	end if;
	perform {schema}.goes_on(id, version, {schema}.names_of(coalesce(signals, '{}'), waits is not null), case when waits is not null then {schema}.waits_of(waits) end,
		until, payload, checkpoint, result, children, wake);
end $$;

-- again_bytes ends an attempt and has its task run again, if and only if the transaction commits. The
-- count of attempts starts again.
--   id, version   those of the task that the handler got: they name the attempt
--   at            when the task runs again
--   payload       null to keep the one that it has
--   checkpoint    null for none
--   result        of this attempt
--   wake          as in finish_bytes
create or replace function {schema}.again_bytes(id uuid, version bigint, at timestamptz, payload bytea default null, checkpoint bytea default null,
	result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	perform {schema}.goes_on(id, version, null, null, at, payload, checkpoint, result, null, wake);
end $$;

-- again is again_bytes for JSON.
create or replace function {schema}.again(id uuid, version bigint, at timestamptz, payload jsonb default null, checkpoint jsonb default null,
	result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.again_bytes(id, version, at, convert_to(payload::text, 'UTF8'), convert_to(checkpoint::text, 'UTF8'), convert_to(result::text, 'UTF8'), wake);
end $$;

-- again_with_children_bytes is again_bytes for a task that adds children: they are there if and only if the transaction commits.
--   children   an object whose members are names of children, each with an array of children as in add_with_children
create or replace function {schema}.again_with_children_bytes(id uuid, version bigint, at timestamptz, children jsonb, payload bytea default null, checkpoint bytea default null,
	result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	perform {schema}.goes_on(id, version, null, null, at, payload, checkpoint, result, coalesce(children, 'null'), wake);
end $$;

-- again_with_children is again_with_children_bytes for JSON.
create or replace function {schema}.again_with_children(id uuid, version bigint, at timestamptz, children jsonb, payload jsonb default null, checkpoint jsonb default null,
	result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.again_with_children_bytes(id, version, at, children, convert_to(payload::text, 'UTF8'), convert_to(checkpoint::text, 'UTF8'), convert_to(result::text, 'UTF8'), wake);
end $$;

-- wait_bytes ends an attempt and has its task wait, if and only if the transaction commits: for the first signal of these names, for the first
-- of these waits for children that is over, or until a time.
--   id, version   those of the task that the handler got: they name the attempt
--   signals       names of signals; null to wait for none
--   waits         an array of objects with the name of children and, if it is not for all of them, count, and or_failed; null to wait for no
--                 children
--   until         when the task goes on at the latest; null for never
--   payload, checkpoint, result, wake   as in again_bytes
create or replace function {schema}.wait_bytes(id uuid, version bigint, signals text[] default null, waits jsonb default null, until timestamptz default null,
	payload bytea default null, checkpoint bytea default null, result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	perform {schema}.begins_wait(id, version, signals, waits, until, payload, checkpoint, result, null, wake);
end $$;

-- wait is wait_bytes for JSON.
create or replace function {schema}.wait(id uuid, version bigint, signals text[] default null, waits jsonb default null, until timestamptz default null,
	payload jsonb default null, checkpoint jsonb default null, result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.wait_bytes(id, version, signals, waits, until, convert_to(payload::text, 'UTF8'), convert_to(checkpoint::text, 'UTF8'), convert_to(result::text, 'UTF8'), wake);
end $$;

-- wait_with_children_bytes is wait_bytes for a task that adds children: they are there if and only if the transaction commits.
--   children         as in again_with_children_bytes
--   signals, waits   both null to wait for all of these children, which have one name then
create or replace function {schema}.wait_with_children_bytes(id uuid, version bigint, children jsonb, signals text[] default null, waits jsonb default null, until timestamptz default null,
	payload bytea default null, checkpoint bytea default null, result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
	perform {schema}.begins_wait(id, version, signals, waits, until, payload, checkpoint, result, coalesce(children, 'null'), wake);
end $$;

-- wait_with_children is wait_with_children_bytes for JSON.
create or replace function {schema}.wait_with_children(id uuid, version bigint, children jsonb, signals text[] default null, waits jsonb default null, until timestamptz default null,
	payload jsonb default null, checkpoint jsonb default null, result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.wait_with_children_bytes(id, version, children, signals, waits, until, convert_to(payload::text, 'UTF8'), convert_to(checkpoint::text, 'UTF8'), convert_to(result::text, 'UTF8'), wake);
end $$;

-- The ends of attempts that the program makes by one statement.

-- size_in returns the size of a text in a column that has several values.
create or replace function {schema}.size_in(b bytea, place integer) returns integer language sql immutable as $$
select ('x' || encode(substring(b from place for 4), 'hex'))::bit(32)::integer
$$;

-- sets_of returns the names of the children in the column children, and behind each name its six numbers and two texts, without waits.
create or replace function {schema}.sets_of(children bytea, out names bytea[], out sets bytea[]) language plpgsql immutable as $$
declare
	place integer := 1;
	first integer;
begin
	names := '{}';
	sets := '{}';
	while place <= length(children) loop
		first := place + 4 + {schema}.size_in(children, place);
		names := array_append(names, substring(children from place + 4 for first - place - 4));
		place := first + 52 + {schema}.size_in(children, first + 48);
		place := place + 4 + {schema}.size_in(children, place);
		sets := array_append(sets, substring(children from first for 32) || int8send(0) || int8send(0) || substring(children from first + 48 for place - first - 48));
	end loop;
end $$;

-- can_add reports whether children that are added are the next of their names. Each name is in adds once, with the number of the first child,
-- how many there are, and their shards.
create or replace function {schema}.can_add(children bytea, adds bytea) returns boolean language plpgsql immutable as $$
declare
	was   record  := {schema}.sets_of(children);
	place integer := 1;
	size  integer;
	at    integer;
begin
	while place <= length(adds) loop
		size := {schema}.size_in(adds, place);
		at := array_position(was.names, substring(adds from place + 4 for size));
		place := place + 4 + size;
		if {schema}.number_in(adds, place) <> coalesce({schema}.number_in(was.sets[at], 1), 0) then
			return false;
		end if;
		place := place + 20 + {schema}.size_in(adds, place + 16);
	end loop;
	return true;
end $$;

-- family_with returns the column children after children are added, and waits begin; and whether one of the waits is over. Each name is in
-- waits once, with how many are to end, and whether one that has failed ends the wait.
create or replace function {schema}.family_with(inout children bytea, adds bytea, waits bytea, out is_met boolean) language plpgsql immutable strict as $$
declare
	was    record  := {schema}.sets_of(children);
	names  bytea[] := was.names;
	sets   bytea[] := was.sets;
	place  integer := 1;
	size   integer;
	at     integer;
	part   bytea;
	shards bytea;
	n      bigint;
begin
	is_met := false;
	while place <= length(adds) loop
		size := {schema}.size_in(adds, place);
		part := substring(adds from place + 4 for size);
		at := array_position(names, part);
		place := place + 4 + size;
		n := {schema}.number_in(adds, place + 8);
		shards := {schema}.text_in(adds, place + 16);
		place := place + 20 + length(shards);
		if at is null then
			names := array_append(names, part);
			sets := array_append(sets, int8send(n) || decode(repeat('00', 44), 'hex') || int4send(length(shards)) || shards);
		else
			part := sets[at];
			size := 53 + {schema}.size_in(part, 49);
			sets[at] := int8send({schema}.number_in(part, 1) + n) || substring(part from 9 for size - 9)
				|| int4send({schema}.size_in(part, size) + length(shards)) || substring(part from size + 4) || shards;
		end if;
	end loop;
	place := 1;
	while place <= length(waits) loop
		size := {schema}.size_in(waits, place);
		at := array_position(names, substring(waits from place + 4 for size));
		place := place + 4 + size;
		if at is null then
			is_met := true; -- it waits for none
		else
			part := sets[at];
			n := {schema}.number_in(waits, place);
			if n = 0 or n > {schema}.number_in(part, 1) then
				n := {schema}.number_in(part, 1);
			end if;
			sets[at] := overlay(part placing int8send(n) || substring(waits from place + 8 for 8) from 33);
			is_met := is_met or n > 0 and ({schema}.number_in(part, 9) + {schema}.number_in(part, 17) + {schema}.number_in(part, 25) >= n
				or {schema}.number_in(waits, place + 8) = 1 and {schema}.number_in(part, 17) + {schema}.number_in(part, 25) > 0);
		end if;
		place := place + 16;
	end loop;
	children := (select string_agg(int4send(length(s.name)) || s.name || s.part, '' order by s.n) from unnest(names, sets) with ordinality as s (name, part, n));
end $$;

-- wait_of returns the column signals after an attempt has done its work and its task waits for signals of these names. woken_by is the end of the
-- wait, if a signal that the task has kept or, as is_met says, children end it at once; null if it begins. patience is in nanoseconds.
create or replace function {schema}.wait_of(names bytea, inout signals bytea, patience bigint, is_met boolean, out woken_by smallint) language plpgsql immutable strict as $$
declare
	place  integer := 17;
	n      bigint  := 0;
	wanted bytea[] := '{}';
	woken  bytea   := ''; -- the signal that ends this wait
	kept   bytea   := '';
	seen   bytea   := '';
	first  integer;
	size   integer;
begin
	if signals <> '' then
		if {schema}.number_in(signals, 9) > 0 then
			seen := substring(signals from 17 for 16); -- the id of the signal that ended the wait before
			place := 45 + {schema}.size_in(signals, 41);
			place := place + 4 + {schema}.size_in(signals, place);
		end if;
		n := {schema}.number_in(signals, place);
		place := place + 8;
		first := place;
		while n > 0 and length(names) > 0 loop
			wanted := array_append(wanted, {schema}.text_in(names, 1));
			names := substring(names from 5 + {schema}.size_in(names, 1));
		end loop;
		for i in 1 .. n loop
			size := 28 + {schema}.size_in(signals, place + 24);
			size := size + 4 + {schema}.size_in(signals, place + size);
			if woken_by is null and {schema}.text_in(signals, place + 24) = any(wanted) then
				woken_by := 1;
				woken := substring(signals from place for size);
				kept := substring(signals from first for place - first);
				first := place + size;
				n := n - 1;
			end if;
			place := place + size;
		end loop;
		kept := kept || substring(signals from first for place - first);
		seen := substring(signals from place) || seen;
		seen := substring(seen from greatest(length(seen) - 1599, 1)); -- a hundred ids
	end if;
	if woken_by is null and is_met then
		woken_by := 4;
	end if;
	if woken_by is not null then
		patience := 0;
	end if;
	signals := case when patience <> 0 or woken <> '' or kept <> '' or seen <> '' then
		int8send(patience) || int8send(case when woken <> '' then 1 else 0 end) || woken || int8send(n) || kept || seen end;
end $$;

-- Logs of tasks. Each function locks the row of task_log_size first, so that one changes logs at a time, and its statements see what the one before
-- has done: a reader misses no piece of a log, and no function waits for another one with a lock.

-- append_logs appends pieces, each of another task, and removes those that are not within the newest bytes of a log.
create or replace function {schema}.append_logs(most bigint, tasks uuid[], ats bigint[], marks bigint[], pieces bytea[]) returns void language plpgsql volatile as $$
declare
	added bigint;
	gone bigint;
begin
	perform from {schema}.task_log_size for no key update;
	with put as (
		insert into {schema}.task_log (task, at, mark, total, data)
		select c.task, greatest(c.at, coalesce(l.at + 1, c.at)), c.mark, coalesce(l.total, 0) + octet_length(c.data), c.data
		from unnest(tasks, ats, marks, pieces) as c (task, at, mark, data)
		left join lateral (select at, mark, total from {schema}.task_log t where t.task = c.task order by t.at desc limit 1) l on true
		where l.mark is distinct from c.mark
		returning octet_length(data) as size)
	select coalesce(sum(size), 0) into added from put;
	with newest as (
		select l.task, l.at, l.total from unnest(tasks) as c (task)
		cross join lateral (select t.task, t.at, t.total from {schema}.task_log t where t.task = c.task order by t.at desc limit 1) l
		where l.total > most),
	removed as (
		delete from {schema}.task_log t using newest n
		where t.task = n.task and t.at < n.at and t.total - octet_length(t.data) < n.total - most
		returning octet_length(t.data) as size)
	select coalesce(sum(size), 0) into gone from removed;
	update {schema}.task_log_size set bytes = bytes + added - gone;
end $$;

create or replace function {schema}.remove_logs(tasks uuid[]) returns void language plpgsql volatile as $$
declare
	gone bigint;
begin
	perform from {schema}.task_log_size for no key update;
	with removed as (delete from {schema}.task_log where task = any(tasks) returning octet_length(data) as size)
	select coalesce(sum(size), 0) into gone from removed;
	update {schema}.task_log_size set bytes = bytes - gone where gone <> 0;
end $$;

-- trim_logs removes the oldest pieces of all logs, at most as many as pieces says, until there are no more bytes than these. It returns how many bytes are left.
create or replace function {schema}.trim_logs(most bigint, pieces integer) returns bigint language plpgsql volatile as $$
declare
	was bigint;
	gone bigint;
begin
	select bytes into was from {schema}.task_log_size;
	if was <= most then
		return was;
	end if;
	select bytes into was from {schema}.task_log_size for no key update;
	with oldest as (
		select task, at, sum(size) over (order by at, task) - size as before from (
			select task, at, octet_length(data) as size from {schema}.task_log order by at, task limit pieces) o),
	removed as (
		delete from {schema}.task_log t using oldest o where t.task = o.task and t.at = o.at and was - o.before > most
		returning octet_length(t.data) as size)
	select coalesce(sum(size), 0) into gone from removed;
	update {schema}.task_log_size set bytes = bytes - gone where gone <> 0;
	return was - gone;
end $$;

-- Counting tasks.

create or replace function {schema}.tally_task() returns trigger language plpgsql as $$
begin
	case tg_op
	when 'INSERT' then
		insert into {schema}.tally (type, state, kind, node, n, folded)
		select type, state, kind, case when kind is not null then node end, count(*), false from added group by 1, 2, 3, 4;
	when 'DELETE' then
		insert into {schema}.tally (type, state, kind, node, n, folded)
		select type, state, kind, case when kind is not null then node end, -count(*), false from removed group by 1, 2, 3, 4;
	else
		insert into {schema}.tally (type, state, kind, node, n, folded)
		select type, state, kind, node, sum(n), false from (
			select type, state, kind, case when kind is not null then node end as node, -1 as n from removed
			union all
			select type, state, kind, case when kind is not null then node end, 1 from added) r
		group by type, state, kind, node having sum(n) <> 0;
	end case;
	return null;
end $$;

create or replace function {schema}.tally_ended() returns trigger language plpgsql as $$
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
create or replace function {schema}.tally_truncated() returns trigger language plpgsql as $$
begin
	insert into {schema}.tally (type, state, keep, since, kind, node, n, folded)
	select type, state, keep, since, kind, node, -sum(n), false from {schema}.tally
	where (keep is null) = (tg_table_name = 'task')
	group by 1, 2, 3, 4, 5, 6 having sum(n) <> 0;
	return null;
end $$;

-- recount reads all tasks, makes the notes right, and returns how many sums were wrong. What
-- there is and what was noted are of one moment, and it notes the difference: so nobody who
-- changes rows meanwhile has to wait.
create or replace function {schema}.recount() returns bigint language plpgsql volatile as $$
declare
	wrong bigint;
begin
	perform {schema}.check_isolation();
	lock table {schema}.tally in share update exclusive mode; -- one at a time
	insert into {schema}.tally (type, state, keep, since, kind, node, n, folded)
	select type, state, keep, since, kind, node, sum(n), false from (
		select type, state, null::integer as keep, null::bigint as since, kind, case when kind is not null then node end as node, 1 as n from {schema}.task
		union all
		select type, state, keep, {schema}.since_of(keep, ended_at), null, null, 1 from {schema}.ended
		union all
		select type, state, keep, since, kind, node, -n from {schema}.tally_now) r
	group by 1, 2, 3, 4, 5, 6 having sum(n) <> 0;
	get diagnostics wrong = row_count;
	return wrong;
end $$;

-- Triggers and views.

create or replace trigger tally_insert after insert on {schema}.task referencing new table as added
	for each statement execute function {schema}.tally_task();
create or replace trigger tally_update after update on {schema}.task referencing old table as removed new table as added
	for each statement execute function {schema}.tally_task();
create or replace trigger tally_delete after delete on {schema}.task referencing old table as removed
	for each statement execute function {schema}.tally_task();
create or replace trigger tally_truncate after truncate on {schema}.task
	for each statement execute function {schema}.tally_truncated();
create or replace trigger tally_insert after insert on {schema}.ended referencing new table as added
	for each statement execute function {schema}.tally_ended();
create or replace trigger tally_update after update on {schema}.ended referencing old table as removed new table as added
	for each statement execute function {schema}.tally_ended();
create or replace trigger tally_delete after delete on {schema}.ended referencing old table as removed
	for each statement execute function {schema}.tally_ended();
create or replace trigger tally_truncate after truncate on {schema}.ended
	for each statement execute function {schema}.tally_truncated();

-- The sums, but for tables below ended that are not parts of it: those that somebody has
-- detached, and those that were dropped, whose notes are gone when they are folded.
create or replace view {schema}.tally_now as
select type, state, keep, since, kind, node, sum(n)::bigint as n from {schema}.tally
group by type, state, keep, since, kind, node
having sum(n) <> 0 and (keep is null or {slot} in (
	select {slot_named} from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid
	where c.relnamespace = to_regnamespace({schema_literal}) and not i.inhdetachpending));

-- How many tasks there are, for people.
create or replace view {schema}.counts as
select {schema}.readable(type) as type, (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[state] as state, sum(n)::bigint as tasks
from {schema}.tally_now group by tally_now.type, tally_now.state;

create or replace view {schema}.tasks as
select t.id, {schema}.readable(t.type) as type,
	(array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[t.state] as state,
	t.priority + coalesce(t.boost, 0::smallint) as priority, {schema}.readable(t.key) as key, {schema}.readable(t.ordering_key) as ordering_key,
	{schema}.moment(t.created_at) as created_at, {schema}.moment(t.ready_at) as ready_at,
	{schema}.moment(t.next_event_at) as next_event_at, {schema}.moment(t.expires_at) as expires_at,
	{schema}.moment(t.started_at) as started_at, {schema}.moment(t.updated_at) as updated_at,
	t.attempt, t.crashes, {schema}.readable(t.error) as error,
	{schema}.readable(t.payload) as payload, {schema}.readable(t.result) as result,
	t.owner, {schema}.readable(t.node) as node, t.shard, t.version, t.seq, t.tombstone is true as tombstone, t.turn = 1 as waits_behind,
	encode(substr(t.parent, 1, 16), 'hex')::uuid as parent
from (
	select id, type, state, priority, boost, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, node, shard, turn, version, seq, tombstone, parent from {schema}.task
	union all
	select id, type, state, priority, boost, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, node, shard, turn, version, seq, tombstone, parent from {schema}.ended) t;

-- The documents that there are. data is the text of bytes, or these escaped if they are no text.
create or replace view {schema}.documents as
select e.id, {schema}.readable(e.key) as key, {schema}.readable(e.payload) as data, coalesce(e.payload, '') as bytes, e.version, {schema}.moment(e.created_at) as created_at, {schema}.moment(e.updated_at) as updated_at,
	{schema}.moment(e.next_event_at) as expires_at, e.shard
from {schema}.key k join (
	select id, key, type, version, created_at, updated_at, next_event_at, shard, state, history,
		case when substring(payload from 1 for 5) = '\x0074650100' then substring(payload from 6) else payload end as payload from {schema}.ended) e on e.id = k.id
where k.type = 'taskengine.document'::bytea and k.ordering_key = '' and e.type = k.type and e.key = k.key and e.state = 4 and e.history is null
	and (e.next_event_at = {none} or e.next_event_at > {schema}.microseconds(clock_timestamp()));

-- read_document returns the document of a key, no row if there is none.
create or replace function {schema}.read_document(key text) returns setof {schema}.documents language sql stable security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
select * from {schema}.documents d where d.id = {schema}.document_id(key)
$$;

-- A role needs the right to execute a function that acts with the rights of the owner. Rights that were granted stay.
do $$
declare
	f regprocedure;
begin
	for f in select oid from pg_proc where pronamespace = to_regnamespace({schema_literal}) and prosecdef and proacl is null loop
		execute format('revoke all on function %s from public', f);
	end loop;
end $$;
