package postgres

import "strings"

// updateExit makes the ends of attempts that have no shorter statement, see isExit. The functions that it calls read and write the columns
// children and signals as [task.Change.Apply] does; they are not called for a change that does not change these. A first wait needs no
// function: its task remembers no signals. A task that has ended is moved from the table by a statement after it.
const updateExit = `
update {task} t
set version = t.version + 1, owner = null, updated_at = c.at,
	attempt = case c.count when 0 then t.attempt when 1 then greatest(t.attempt - 1, 0) else 0 end,
	crashes = case when c.count = 2 then 0 when c.outcome = 2 then least(t.crashes, 2147483646) + 1 when c.outcome in (0, 1, 4) then 0 else t.crashes end,
	expires_at = case when c.unlimited then {none} else t.expires_at end,
	history = case when c.state = 4 or c.outcome = 5 then t.history
		else {schema}.with_attempt(t.history, t.attempt, t.started_at, c.at, t.node, c.outcome, c.error) end,
	error = case when c.state = 4 then c.error else coalesce(c.error, t.error) end,
	result = case when c.completes then c.result else t.result end,
	checkpoint = case when c.marks or c.completes then c.checkpoint else t.checkpoint end,
	payload = case when c.loads then c.payload else t.payload end, grp = case when c.groups then c.grp else t.grp end,
	(children, signals, awaits, woken_by, state, ready_at, next_event_at, due_state, due_at, queued, turn, priority, boost, kind, kind_at) = (
		select case when c.family then f.children else t.children end,
			case when a.state in (4, 6, 7) then null when c.names is null then t.signals when t.signals is not null then w.signals
				when v.woken_by is null and c.patience <> 0 then int8send(c.patience) || decode('00000000000000000000000000000000', 'hex') end,
			case when v.woken_by is null then c.names end,
			case when a.state in (4, 6, 7) then null when c.names is not null then v.woken_by when not c.completes then t.woken_by end,
			a.state, coalesce(a.ready_at, t.ready_at), b.next_event_at, d.due_state, case when d.due_state is not null then nullif(b.next_event_at, {none}) end,
			a.state = 2 and b.turn <> 1, b.turn, case when b.turn = 2 then t.priority else {own:t} end, case when b.turn = 2 then t.boost end,
			case when a.state = 5 then c.kind end, case when a.state = 5 then c.at end
		from {schema}.family_with(case when c.family then coalesce(t.children, '') end, coalesce(c.adds, ''), coalesce(c.waits, '')) f,
			{schema}.wait_of(case when t.signals is not null then c.names end, t.signals, c.patience, coalesce(f.is_met, false)) w,
			lateral (select case when t.signals is null and c.names is not null and f.is_met then 4::smallint else w.woken_by end as woken_by) v,
			lateral (select case when v.woken_by is null then c.state else 2::smallint end as state,
				case when v.woken_by is null then c.ready_at else c.at end as ready_at,
				case when v.woken_by is null then c.next_event_at else c.overdue end as next_event_at) a,
			lateral (select case when a.state in (1, 2) and not c.unlimited and t.expires_at <> {none}
					then coalesce(least(nullif(a.next_event_at, {none}), t.expires_at), {none}) else a.next_event_at end as next_event_at,
				case when t.turn = 0 or a.state in (4, 6, 7) or a.state = 5 and c.leaves then 0::smallint
					when a.state in (1, 2) and a.ready_at is not null then 1::smallint else t.turn end as turn) b,
			lateral (select case when a.state in (1, 5) or a.state = 2 and b.next_event_at <> {none} then a.state end as due_state) d)
from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::smallint[], $10::smallint[],
	$11::bytea[], $12::bytea[], $13::boolean[], $14::boolean[], $15::bytea[], $16::boolean[], $17::bytea[], $18::boolean[], $19::bytea[],
	$20::boolean[], $21::boolean[], $22::bytea[], $23::bigint[], $24::boolean[], $25::bytea[], $26::bytea[], $27::bigint[])
	as c (id, version, by, state, at, ready_at, next_event_at, overdue, outcome, count,
	error, result, completes, marks, checkpoint, loads, payload, groups, grp,
	leaves, unlimited, names, patience, family, adds, waits, kind)
where t.id = c.id and t.version = c.version and t.state = 3 and t.owner = c.by and (c.adds is null or {schema}.can_add(t.children, c.adds))
	and (c.state not in (4, 6, 7) or {unfollowed})
returning {narrow:t}, t.signals, t.children`

// deleteEnded deletes tasks that have ended and that are still in the table task.
const deleteEnded = `
with gone as (
	delete from {task} where id = any($1::uuid[]) and state in (4, 6, 7) returning id, type, ordering_key, key),
keys as (delete from {key} k using gone where {holds:gone})
select id from gone`

// endNoted is moveEnded, and deleteNoted is deleteEnded, with notesEnds.
var (
	endNoted    = strings.Replace(moveEnded, "\ninsert", ",\nmoved as (insert", 1) + "),\n" + strings.TrimSpace(notesEnds) + "\nselect from noted"
	deleteNoted = strings.Replace(deleteEnded, "\nselect id from gone", ",\n"+strings.TrimSpace(notesEnds)+"\nselect from noted", 1)
)
