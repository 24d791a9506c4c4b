-- What ended long before the time in its id is in classes of the table ended of their own, whose
-- number (the column keep) is less than zero. So callers may choose ids of any time, and there
-- are no tables for times to come.

create or replace function {schema}.is_taken(p_id uuid) returns boolean language sql volatile as $$
select exists (select from {schema}.task t where t.id = p_id)
	or exists (select from {schema}.ended e where e.id = p_id and e.ended_at >= {schema}.made_at(p_id))
	or exists (select from {schema}.ended e where e.id = p_id and e.keep < 0)
$$;

create or replace function {schema}.put(r {schema}.task, fresh boolean) returns boolean language plpgsql volatile as $$
begin
	insert into {schema}.task select r.* on conflict (id) do nothing;
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
	delete from {schema}.key k where k.type = r.type and k.key = r.key and k.id = r.id
		and not exists (select from {schema}.task t where t.id = r.id and t.key = r.key and t.type = r.type)
		and not exists (select from {schema}.ended e where e.id = r.id and e.key = r.key and e.type = r.type);
	return false;
end $$;

-- A table may have been made instead of one that somebody has detached: its name ends with x and
-- a number.
create or replace view {schema}.tally_now as
select type, state, keep, since, sum(n)::bigint as n from {schema}.tally
group by type, state, keep, since
having sum(n) <> 0 and (keep is null or exists (
	select from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid
	where c.relnamespace = to_regnamespace({schema_literal}) and c.relname ~ {slot_pattern} and not i.inhdetachpending));


-- since_of knows the classes of what ended early: their number is less than zero.
create or replace function {schema}.since_of(keep integer, ended_at bigint) returns bigint language sql immutable as $$
select case
	when keep = 2147483646 then 0 -- see ended_2147483646_0
	when ended_at >= 0 then ended_at / 1000000 - ended_at / 1000000 % (case keep when 0 then 10368000 else abs(keep) end / 4)
	else (ended_at - (ended_at % (case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)
		+ case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)
		% (case keep when 0 then 10368000 else abs(keep) end / 4 * 1000000::bigint)) / 1000000
end
$$;
