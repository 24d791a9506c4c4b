package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// statements are the statements of a store, for one schema. The texts below have the placeholders of
// [schema.Fill], and these of this package: {trigger} is the columns of a trigger, {mine:6} is true
// for rows of the shards in the bitmap $6 and for all if it is null, {deep} is a number, {behind:t}
// and {head:t} are true for rows of the table t that have this turn, and {leaving:f} is true for rows of the table
// f in a shard that is on its way to another database. {own:t} is the own priority of a row of t, and {inherited} is the
// priority with which the head h of a key is to run. {done} is the columns {narrow} of a row of gone that is done now. {unfollowed} is true for rows
// of t after which no other task runs.
type statements struct {
	get, getAll, lockTask, lockEnded                        string
	inserts                                                 map[insertKind]func() string
	claimKeys, releaseKeys, holders, allHolders, areFree    string
	removeEnded, remove, note, grab, finish, drop, update   string
	rerun, finishNoted, dropNoted                           string
	finishInTx, exitInTx                                    string
	exit, endNoted, removeExits, removeExitsNoted           string
	end, comeBack, documents                                string
	due, dueRunning, dueEnded, ready, queues, allQueues     string
	dueOf, submitted, submittedOf                           string
	listAll, listLive, listErrors, listKinds, countKinds    string
	appendLogs, readLog, loggedTasks, removeLogs, trimLogs  string
	listKey, listErrorsOf, listWorkflows, listSome          string
	listOpenWorkflows, listEndedWorkflows                   string
	searches                                                searchTexts
	entries                                                 entryTexts
	count, fold                                             string
	unclaimed, allUnclaimed, orphans, outdated              string
	setting, setSetting, unset, swapSetting                 string
	setRules, rules, checkIsolation                         string
	first                                                   firsts
	lockKeys, demote, promote, heads, headless, takeHead    string
	locked                                                  string
	keys, keysBehind, key, findKey, keysOf, freeKeys, hasID string
	eraseKeys                                               string
}

// entryTexts are the statements that list rows by the entries of indexes, see entriesOf.
type entryTexts struct{ submitted, submittedOf, waiting, both string }

const selectLockTask = `
select {narrow}, {heavy} from {task} where id = any($1::uuid[]) order by id for no key update`

const selectLockEnded = `
select {narrow}, {heavy} from {ended} where id = any($1::uuid[]) order by id for no key update`

const insertTask = `
insert into {task} (seq, {fresh}, {others}, queued)
select nextval('{task_seq}'), {taken}, {values}, state = 2 and {turn} <> 1
from {rows}
{which}
returning id, seq`

// fresh is the columns in which tasks that were just submitted may differ, with their types; others
// is the other columns.
const (
	fresh = `id uuid, owner uuid, created_at bigint, ready_at bigint, next_event_at bigint, expires_at bigint, started_at bigint, due_at bigint,
	attempt integer, shard smallint, turn smallint, state smallint, priority smallint, inherits boolean, due_state smallint,
	type bytea, grp bytea, key bytea, ordering_key bytea, node bytea, headers bytea, payload bytea, parent bytea`
	others = `version bigint, updated_at bigint, crashes integer, progress bytea, error bytea, history bytea, checkpoint bytea, result bytea, tombstone boolean,
	awaits bytea, woken_by smallint, signals bytea, children bytea, kind bigint, kind_at bigint, search text`
	// noOthers is their values in a task that was just submitted.
	noOthers = `1, created_at, 0, null, null, null, null, null, null, null, null, null, null, null, null, null`
)

// The rows to insert, and the same if some are the heads of their keys, unless others have the key or an earlier seat.
const (
	givenRows = `unnest({params}) as c ({given})`
	seatRows  = `(select c.*, case when c.turn = 2 and (
		exists (select from {task} h where h.ordering_key = c.ordering_key and {head:h})
		or exists (select from {task} b where b.ordering_key = c.ordering_key and {behind:b} and b.ready_at <= c.ready_at)) then 1::smallint else c.turn end as seat
	from unnest({params}) as c ({given}) offset 0) c`
)

// Conditions for rows: one with a key is added only if it holds the key, and one that follows a change only if its
// transaction has made that.
const (
	whichKeyed   = `(key is null or exists (select from {key} k where {holds:c}))`
	whichFollows = `exists (select from {task} t where t.id = c.after and t.version = c.made and t.xmin = pg_current_xact_id()::xid)`
	follows      = `after uuid, made bigint`
	// The row of a task that has ended is deleted, or in a partition of the table ended that is not known here.
	whichEnded = `c.after in (select unnest(string_to_array(current_setting('taskengine.ended', true), ',')::uuid[]))`
)

// notesEnds is a part of statements by which tasks end: it notes them for those after it in the transaction.
const notesEnds = `
noted as (select set_config('taskengine.ended', concat_ws(',', nullif(current_setting('taskengine.ended', true), ''),
	(select string_agg(id::text, ',') from gone)), true))`

const insertKeys = `
insert into {key} (type, ordering_key, key, id)
select type, ordering_key, key, id from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::uuid[]) as c (type, ordering_key, key, id)
order by type, ordering_key, key
on conflict do nothing`

// A key without a row is deleted.
const deleteKeys = `
delete from {key} k using unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::uuid[]) as c (type, ordering_key, key, id)
where {holds:c}
	and not exists (select from {task} t where t.id = c.id and {holds:t})
	and not exists (select from {ended} t where t.id = c.id and t.ended_at >= $5 and {holds:t})
	and not exists (select from {ended} t where t.id = c.id and t.keep < 0 and {holds:t})`

// If both the id and the key are taken, the answer is the task that has the id. {nobody} is the answer if the task that had
// the key when others claimed it in vain has given it up since.
const selectHolders = `
select c.id, case when
	exists (select from {task} t where t.id = c.id) or exists (select from {ended} e where e.id = c.id and e.ended_at >= $5)
	or exists (select from {ended} e where e.id = c.id and e.keep < 0) then c.id when k.id is null then {nobody} else k.id end
from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::uuid[]) as c (type, ordering_key, key, id)
left join {key} k on k.type = c.type and k.ordering_key = c.ordering_key and k.key = c.key`

// A row that was just added is deleted if a task of its id has ended already.
const deleteAddedAgain = `
delete from {task} where id = any(array(
	select id from {ended} where id = any($1::uuid[]) and ended_at >= $2
	union all
	select id from {ended} where id = any($1::uuid[]) and keep < 0))
returning id`

const deleteRefs = `
with c as (select * from unnest($1::uuid[], $2::bigint[]) as c (id, version)),
live as (delete from {task} t using c where t.id = c.id and t.version = c.version returning t.id, t.version, t.type, t.ordering_key, t.key),
over as (delete from {ended} t using c where t.id = c.id and t.version = c.version returning t.id, t.version, t.type, t.ordering_key, t.key),
gone as (select * from live union all select * from over),
keys as (delete from {key} k using gone where {holds:gone})
select id, version from gone`

const updateNotes = `
update {task} t
set progress = case when c.tells then c.progress else t.progress end,
	checkpoint = case when c.keeps then c.checkpoint else t.checkpoint end
from unnest($1::uuid[], $2::bigint[], $3::boolean[], $4::bytea[], $5::boolean[], $6::bytea[], $7::uuid[])
	as c (id, version, tells, progress, keeps, checkpoint, by)
where t.id = c.id and t.version = c.version and t.state = 3 and (c.by is null or t.owner = c.by)
returning t.id`

// It changes no indexed column, unless the task could expire while it was queued.
const updateGrab = `
update {task} t
set version = t.version + 1, state = 3, attempt = least(t.attempt, 2147483646) + 1, owner = c.owner, node = c.node,
	started_at = c.at, updated_at = c.at, next_event_at = c.next, due_state = null, due_at = null, progress = null,
	woken_by = case when t.state <> 1 or t.awaits is null then t.woken_by when t.next_event_at <> {none} and t.next_event_at <= c.at then 2 else 3 end,
	awaits = case when t.state <> 1 then t.awaits end
from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::boolean[], $7::bytea[]) as c (id, version, owner, at, next, due, node)
where t.id = c.id and t.version = c.version
	and (t.state = 1 and (not c.due or t.next_event_at <> {none} and t.next_event_at <= c.at) or t.state = 2 and (t.next_event_at = {none} or t.next_event_at > c.at)) and not ({behind:t})
returning {narrow:t}, t.signals, t.children, t.checkpoint, t.payload`

const moveDone = `
with gone as (
	delete from {task} t
	using unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::uuid[])
		as c (id, version, new_result, at, next, ended_at, keep, by)
	where t.id = c.id and t.version = c.version and t.state = 3 and (c.by is null or t.owner = c.by) and {unfollowed}
	returning {narrow:t}, t.children, t.payload, c.new_result, c.at, c.next, c.ended_at, c.keep)
insert into {ended} ({narrow}, children, checkpoint, payload, result, due_at, due_state, queued, ended_at, keep)
select {done}, children, null, payload, new_result, null, null, false, ended_at, keep
from gone
returning {narrow}, signals, children`

// moveNoted is moveDone with notesEnds.
var moveNoted = strings.Replace(moveDone, "\ninsert", ",\nmoved as (insert", 1) + "),\n" + strings.TrimSpace(notesEnds) + "\nselect {narrow}, signals, children from moved, noted"

const dropDone = `
with gone as (
	delete from {task} t using unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::uuid[]) as c (id, version, at, next, by)
	where t.id = c.id and t.version = c.version and t.state = 3 and (c.by is null or t.owner = c.by) and {unfollowed}
	returning {narrow:t}, c.at, c.next),
keys as (delete from {key} k using gone where {holds:gone})
select {done}
from gone`

// dropNoted is dropDone with notesEnds.
var dropNoted = strings.Replace(dropDone, "\nselect {done}\nfrom gone", ",\n"+strings.TrimSpace(notesEnds)+"\nselect {done}\nfrom gone, noted", 1)

// unfollowed is false for a row of t whose end other tasks are to learn of, and fails with codeFollowed instead: see followed.go.
const unfollowed = `(t.children is null or position('` + task.FollowersSet + `'::bytea in t.children) = 0 or {schema}.is_followed())`

// quiet returns a statement that leaves such rows as they are, for a transaction that goes on.
func quiet(sql string) string {
	return strings.ReplaceAll(sql, "{unfollowed}", strings.Replace(unfollowed, " or {schema}.is_followed()", "", 1))
}

// done is the columns {narrow} of a row of gone that is done.
const done = `id, null::uuid, version + 1, seq, created_at, ready_at, next, expires_at, started_at, at,
	attempt, 0::integer, shard, 0::smallint, 4::smallint, {own:gone}, null::smallint, inherits, null::boolean,
	type, grp, key, ordering_key, node, headers, progress, null::bytea, history, null::bytea, null::smallint, parent, search`

// The task runs again: see isAgain.
const updateRerun = `
update {task} t
set version = t.version + 1, state = 1, owner = null, queued = false, attempt = 0, crashes = 0,
	ready_at = c.ready_at, next_event_at = c.next, due_at = nullif(c.next, {none}), due_state = 1, expires_at = {none}, updated_at = c.at,
	turn = least(t.turn, 1), priority = {own:t}, boost = null, history = {schema}.with_attempt(t.history, t.attempt, t.started_at, c.at, t.node, 0, null), result = c.result, woken_by = null,
	checkpoint = c.checkpoint, payload = case when c.loads then c.payload else t.payload end, grp = case when c.groups then c.grp else t.grp end
from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bytea[], $9::boolean[], $10::bytea[],
	$11::boolean[], $12::bytea[])
	as c (id, version, by, at, ready_at, next, result, checkpoint, loads, payload, groups, grp)
where t.id = c.id and t.version = c.version and t.state = 3 and t.owner = c.by
returning {narrow:t}, t.signals, t.children`

const updateRows = `
update {task} t
set version = c.version, owner = c.owner, ready_at = c.ready_at, next_event_at = c.next_event_at, expires_at = c.expires_at,
	started_at = c.started_at, updated_at = c.updated_at,
	due_state = nullif(c.due_state, 0), due_at = case when c.due_state <> 0 then nullif(c.next_event_at, {none}) end, queued = c.state = 2 and not ({behind:c}),
	attempt = c.attempt, crashes = c.crashes, state = c.state, progress = c.progress, error = c.error, history = c.history,
	checkpoint = case when c.marks then c.checkpoint else t.checkpoint end,
	payload = case when c.loads then c.payload else t.payload end,
	result = case when c.gains then c.result else t.result end, grp = c.grp, shard = c.shard, turn = c.turn,
	priority = c.priority, boost = nullif(c.boost, 0), inherits = c.inherits, headers = case when c.heads then c.headers else t.headers end, tombstone = c.tombstone, node = c.node,
	awaits = c.awaits, woken_by = nullif(c.woken_by, 0), signals = case when c.signaled then c.signals else t.signals end,
	children = case when c.family then c.children else t.children end, kind = c.kind, kind_at = case when c.kind is not null then c.updated_at end, search = c.search::bigint[]
from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::smallint[],
	$10::integer[], $11::integer[], $12::smallint[], $13::bytea[], $14::bytea[], $15::bytea[], $16::boolean[], $17::boolean[], $18::bytea[], $19::bytea[],
	$20::bytea[], $21::boolean[], $22::bytea[], $23::smallint[], $24::smallint[], $25::smallint[], $26::smallint[], $27::boolean[],
	$28::boolean[], $29::bytea[], $30::boolean[], $31::bytea[],
	$32::bytea[], $33::smallint[], $34::boolean[], $35::bytea[], $36::boolean[], $37::bytea[], $38::bigint[], $39::text[])
	as c (id, version, owner, ready_at, next_event_at, expires_at, started_at, updated_at, due_state,
	attempt, crashes, state, progress, error, history, marks, gains, result, grp, checkpoint, loads, payload,
	shard, turn, priority, boost, inherits, heads, headers, tombstone, node, awaits, woken_by, signaled, signals, family, children, kind, search)
where t.id = c.id`

// freeKeys takes the keys of rows that are on their way through the table task.
const freeKeys = `
with holders as (select id, type, ordering_key, key from {task} where id = any($1::uuid[])),
keys as (delete from {key} k using holders h where {holds:h})
update {task} set key = null where id = any($1::uuid[])`

// eraseKeys is freeKeys for rows that lose their ordering keys, too.
const eraseKeys = `
with holders as (select id, type, ordering_key, key from {task} where id = any($1::uuid[])),
keys as (delete from {key} k using holders h where {holds:h})
update {task} set key = null, ordering_key = null where id = any($1::uuid[])`

const moveEnded = `
with gone as (delete from {task} where id = any($1::uuid[]) and state in (4, 6, 7) returning {columns})
insert into {ended} ({columns}, ended_at, keep)
select {columns:gone}, c.ended_at, c.keep
from gone join unnest($1::uuid[], $2::bigint[], $3::integer[]) as c (id, ended_at, keep) on c.id = gone.id`

const moveBack = `
with gone as (delete from {ended} where id = any($1::uuid[]) returning {narrow}, {heavy})
insert into {task} ({narrow}, {heavy}, queued)
select {narrow}, {heavy}, false from gone`

const upsertRules = `
insert into {type_policy} as t (type, priority, max_payload, queue_timeout, total_timeout, keyed, uniq, max_result, keep_done, max_lateness, remember, inherits, searched)
select type, priority, max_payload, queue_timeout, total_timeout, keyed, uniq, max_result, keep_done, max_lateness, remember, inherits, searched
from unnest($1::bytea[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::jsonb[], $7::jsonb[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[], $13::boolean[])
	as c (type, priority, max_payload, queue_timeout, total_timeout, keyed, uniq, max_result, keep_done, max_lateness, remember, inherits, searched)
order by type
on conflict (type) do update
set (priority, max_payload, queue_timeout, total_timeout, keyed, uniq, max_result, keep_done, max_lateness, remember, inherits, searched)
	= (excluded.priority, excluded.max_payload, excluded.queue_timeout, excluded.total_timeout, excluded.keyed, excluded.uniq, excluded.max_result, excluded.keep_done, excluded.max_lateness, excluded.remember, excluded.inherits, excluded.searched)
where (t.priority, t.max_payload, t.queue_timeout, t.total_timeout, t.keyed, t.uniq, t.max_result, t.keep_done, t.max_lateness, t.remember, t.inherits, t.searched)
	is distinct from (excluded.priority, excluded.max_payload, excluded.queue_timeout, excluded.total_timeout, excluded.keyed, excluded.uniq, excluded.max_result, excluded.keep_done, excluded.max_lateness, excluded.remember, excluded.inherits, excluded.searched)`

const selectRules = `
select type, priority, max_payload, queue_timeout, total_timeout, keyed, uniq, max_result, keep_done, max_lateness, remember, inherits, searched from {type_policy}
where type in ($1, '') order by type desc limit 1`

const swapSetting = `
with added as (
	insert into {engine_setting} (name, value) select $1, $3::bytea where $2::bytea is null and $3 is not null
	on conflict (name) do nothing returning 1),
changed as (update {engine_setting} set value = $3 where name = $1 and value = $2 and $3 is not null returning 1),
removed as (delete from {engine_setting} where name = $1 and value = $2 and $3 is null returning 1)
select (select count(*) from added) + (select count(*) from changed) + (select count(*) from removed)
	+ (select count(*) from (select where $2 is null and $3 is null and not exists (select from {engine_setting} where name = $1)) t)`

// statementsIn returns the statements for a schema.
func statementsIn(name string) *statements {
	fill := filler(name)
	list := func(page string) string {
		return fill(strings.NewReplacer("{page}", page, "{most}", "$5 + 2").Replace(selectList))
	}
	noMore := func(page, notes string) string {
		return fill(strings.NewReplacer("{page}", page, "{most}", strings.ReplaceAll(noMore, "{notes}", notes)).Replace(selectList))
	}
	entries := func(of ...string) string {
		return fill(strings.ReplaceAll(selectEntries, "{entries}", strings.Join(of, "\nunion all\n")))
	}
	unclaimed := func(after string) string { return fill(strings.ReplaceAll(selectUnclaimed, "{after}", after)) }
	queues := func(after string) string { return fill(strings.ReplaceAll(selectQueues, "{after}", after)) }
	holders := func(nobody string) string { return fill(strings.ReplaceAll(selectHolders, "{nobody}", nobody)) }
	return &statements{
		locked: fill(lockedRows), first: firsts{plans: plans, settings: settingsFor(plans)},
		get: fill(selectGet), getAll: fill(selectGetAll), lockTask: fill(selectLockTask), lockEnded: fill(selectLockEnded),
		inserts: insertsIn(fill), claimKeys: fill(insertKeys), releaseKeys: fill(deleteKeys), holders: holders("null"), allHolders: holders("{schema}.key_was_freed()"), areFree: fill(areFree),
		removeEnded: fill(deleteAddedAgain), remove: fill(deleteRefs),
		note: fill(updateNotes), grab: fill(updateGrab), finish: fill(moveDone), drop: fill(dropDone), rerun: fill(updateRerun), update: fill(updateRows),
		finishNoted: fill(moveNoted), dropNoted: fill(dropNoted), finishInTx: fill(quiet(moveDone)), exitInTx: fill(quiet(updateExit)),
		exit: fill(updateExit), endNoted: fill(endNoted), removeExits: fill(deleteEnded), removeExitsNoted: fill(deleteNoted),
		end: fill(moveEnded), comeBack: fill(moveBack), documents: fill(writeDocuments),
		dueOf: fill(selectDueOf), submitted: fill(selectSubmitted), submittedOf: fill(selectSubmittedOf),
		due: fill(selectDue), dueRunning: fill(selectDueRunning), dueEnded: fill(selectDueEnded),
		ready: fill(selectReady), queues: queues("and (type, grp) > ($1, $2)"), allQueues: queues("and $1::bytea = $2::bytea"),
		unclaimed: unclaimed("and (type, grp) > ($1, $2)"), allUnclaimed: unclaimed("and $1::bytea = $2::bytea"), orphans: fill(selectOrphans), outdated: fill(selectOutdated),
		listAll: list(pageAll), listSome: noMore(pageAll, "{tally_now}"), listLive: noMore(pageLive, "(select * from {tally} where keep is null) live"), listWorkflows: list(pageWorkflows), listOpenWorkflows: list(pageOpenWorkflows), listEndedWorkflows: list(pageEndedWorkflows), listErrors: list(pageErrors), listErrorsOf: list(pageErrorsOf), listKinds: list(pageKinds), listKey: list(pageKey), searches: searchTexts{list(pageSearch), fill(searchEnded)}, countKinds: fill(selectKinds),
		entries: entryTexts{
			submitted: entries(entriesReady, entriesBehind), submittedOf: entries(entriesReadyOf, entriesBehind),
			waiting: entries(entriesDue), both: entries(entriesReady, entriesBehind, entriesDue),
		},
		appendLogs: fill(appendLogs), readLog: fill(selectLog), loggedTasks: fill(selectLogged), removeLogs: fill(removeLogs), trimLogs: fill(trimLogs),
		count: fill(selectCount), fold: fill(foldTally),
		setting:     fill("select value from {engine_setting} where name = $1"),
		setSetting:  fill("insert into {engine_setting} (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value"),
		unset:       fill("delete from {engine_setting} where name = $1"),
		swapSetting: fill(swapSetting),
		setRules:    fill(upsertRules), rules: fill(selectRules),
		checkIsolation: fill("select {schema}.check_isolation()"),
		lockKeys:       lockKeys, demote: fill(demoteHeads), promote: fill(promoteFirst), heads: fill(selectHeads), headless: fill(selectHeadless), takeHead: fill(takeHead),
		keys: keysIn(fill, false), keysBehind: keysIn(fill, true), key: fill(selectKey), findKey: fill("select id from {key} where type = $1 and ordering_key = $2 and key = $3"),
		keysOf: fill("select key, id from {key} where type = $1 and ordering_key = '' and key >= $2 and ($3::bytea is null or key < $3) order by key limit $4"),
		hasID:  fill("select id from {task} where id = $1 union all select id from {ended} where id = $1"), freeKeys: fill(freeKeys),
		eraseKeys: fill(eraseKeys),
	}
}

// filler returns a function that replaces placeholders in SQL: the ones of [schema.Fill], and the
// columns of a trigger and conditions of this package.
func filler(name string) func(string) string {
	pairs := []string{
		"{deep}", fmt.Sprint(deep), "{trigger}", triggers,
		"{leaving:f}", "exists (select from {home} o where o.one and " + strings.ReplaceAll(home.Condition("o.leaving"), "(id)", "(f.id)") + ")",
	}
	for _, t := range []string{"b", "c", "f", "gone", "h", "t"} {
		pairs = append(pairs, "{behind:"+t+"}", fmt.Sprintf("%s.turn = %d", t, task.Behind),
			"{head:"+t+"}", fmt.Sprintf("%s.turn = %d", t, task.Head),
			"{own:"+t+"}", fmt.Sprintf("%s.priority + coalesce(%[1]s.boost, 0::smallint)", t),
			"{trigger:"+t+"}", t+"."+strings.ReplaceAll(triggers, ", ", ", "+t+"."))
	}
	for n := 1; n < 10; n++ { // is the row's shard in a bitmap, null for all
		pairs = append(pairs, fmt.Sprintf("{mine:%d}", n), fmt.Sprintf("($%d::bytea is null or get_bit($%[1]d, shard) = 1)", n))
	}
	parts := strings.NewReplacer("{workflow}", "type = '"+task.WorkflowType+"'::bytea", "{inherited}", inherited, "{done}", done, "{unfollowed}", unfollowed).Replace
	own, names := strings.NewReplacer(pairs...).Replace, schema.Fill(name)
	return func(sql string) string { return names(own(parts(sql))) }
}

// fill replaces the placeholders of one statement.
func (s *Store) fill(sql string) string { return filler(s.partitions.schema)(sql) }

// insertsIn returns the statements that insert. Each is made when it is used first: there are many, and a store uses few.
func insertsIn(fill func(string) string) map[insertKind]func() string {
	all := make(map[insertKind]func() string)
	for n := range 1 << 6 {
		kind := insertKind{fresh: n&1 > 0, keyed: n&2 > 0, careful: n&4 > 0, follows: n&8 > 0, seats: n&16 > 0, ends: n&32 > 0}
		all[kind] = sync.OnceValue(func() string { return insertIn(fill, kind) })
	}
	return all
}

// insertIn returns the statement of a kind that inserts.
func insertIn(fill func(string) string, kind insertKind) string {
	given, values := fresh+", "+others, strings.Replace(namesIn(others), ", search", ", search::bigint[]", 1)
	if kind.fresh {
		given, values = fresh, noOthers
	}
	rows, taken, turn := givenRows, namesIn(fresh), "turn"
	if kind.seats {
		rows, taken, turn = seatRows, strings.Replace(taken, ", turn,", ", seat,", 1), "seat"
	}
	var conditions []string
	if kind.keyed {
		conditions = append(conditions, whichKeyed)
	}
	if kind.follows {
		which := whichFollows
		if kind.ends {
			which = "(" + whichFollows + " or " + whichEnded + ")"
		}
		given, conditions = given+", "+follows, append(conditions, which)
	}
	which := ""
	if len(conditions) > 0 {
		which = "where " + strings.Join(conditions, " and ")
	}
	if kind.careful {
		which += "\non conflict (id) do nothing"
	}
	return fill(strings.NewReplacer("{taken}", taken, "{turn}", turn, "{fresh}", namesIn(fresh), "{others}", namesIn(others), "{values}", values,
		"{given}", namesIn(given), "{params}", paramsFor(given), "{which}", which).Replace(strings.ReplaceAll(insertTask, "{rows}", rows)))
}

// namesIn returns the names in a list of columns with their types.
func namesIn(columns string) string {
	names := strings.Split(columns, ",")
	for i, c := range names {
		names[i] = strings.Fields(c)[0]
	}
	return strings.Join(names, ", ")
}

// paramsFor returns array parameters for a list of columns with their types.
func paramsFor(columns string) string {
	params := strings.Split(columns, ",")
	for i, c := range params {
		params[i] = fmt.Sprintf("$%d::%s[]", i+1, strings.Fields(c)[1])
	}
	return strings.Join(params, ", ")
}
