-- A request whose type throttles adds its task if the one that has its key has ended, and was created longer ago than
-- the window of the type, which is in the column uniq in nanoseconds. The earlier task frees its key then. Functions of the
-- version before answer such a request with the earlier task.
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
		delete from {schema}.key k where k.type = was.type and k.key in ({schema}.entry_of(was.ordering_key, was.key), was.key) and k.id = holder;
		return null;
	elsif not found then
		if exists (select from {schema}.ended e where e.id = holder and e.state = 4 and (e.ended_at >= {schema}.made_at(holder) or e.keep < 0)) then
			return 'already_done';
		elsif {schema}.is_taken(holder) then
			return 'existing';
		end if;
		return null;
	elsif mode not in ('replace', 'debounce') or t.state not in (1, 2) or t.started_at <> {none} then
		return 'existing';
	end if;
	if mode = 'debounce' then
		perform {schema}.check_late(r, p);
		t.state := r.state;
		t.ready_at := r.ready_at;
		t.due_at := r.due_at;
		if t.shard >> 16 = 2 then
			t.shard := (t.shard & 65535) + 65536; -- it takes another seat
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
		expires_at = r.expires_at, shard = t.shard, queued = t.state = 2 and t.shard >> 16 <> 1,
		priority = r.priority, grp = r.grp, headers = r.headers, payload = r.payload, checkpoint = null
	where k.id = holder;
	return 'replaced';
end $$;
