package postgres

import "strings"

// These statements give ordering keys their heads, in this order. Each sees all commits before it
// began, so the others see the changes of every transaction that had the lock of a key before. They lock
// no row that another transaction has locked: see the comment of the package.

const lockKeys = `select pg_advisory_xact_lock(n) from unnest($1::bigint[]) n`

// A row that another transaction changes at that time has another version. Rows on their way to another database do not
// change any more: they get a head there.
const demoteHeads = `
update {task} t set turn = 1, queued = false, priority = {own:t}, boost = null
from (
	select h.id from unnest($1::bytea[]) k (key)
	join {task} h on h.ordering_key = k.key and {head:h}
	cross join lateral (
		select b.id, b.version, b.state, b.ready_at, b.seq from {task} b where b.ordering_key = k.key and {behind:b}
		order by b.ready_at, b.seq limit 1) c
	join {task} f on f.id = c.id and f.version = c.version
	where h.state = 2 and h.started_at = {none} and c.state in (2, 5) and (c.ready_at, c.seq) < (h.ready_at, h.seq) and not {leaving:f}
	for no key update of h, f skip locked) o
where t.id = o.id`

const promoteFirst = `
update {task} t set turn = 2, queued = t.state = 2
from (
	select f.id from unnest($1::bytea[]) k (key)
	cross join lateral (
		select b.id, b.version, b.state from {task} b where b.ordering_key = k.key and {behind:b}
		order by b.ready_at, b.seq limit 1) c
	join {task} f on f.id = c.id and f.version = c.version
	where c.state <> 1 and not exists (select from {task} h where h.ordering_key = k.key and {head:h}) and not {leaving:f}
	for no key update of f skip locked) o
where t.id = o.id`

// The heads that are ready. Heads that inherit get the lent priority.
const selectHeads = `
with h as (
	select {trigger:h}, h.state, h.next_event_at, {own:h} as own, case when h.inherits then {inherited} end as inherited
	from unnest($1::bytea[]) k (key) join {task} h on h.ordering_key = k.key and {head:h} and h.state = 2),
boosted as (
	update {task} t set priority = o.inherited, boost = nullif(o.own - o.inherited, 0)
	from (
		select f.id, h.own, h.inherited from h join {task} f on f.id = h.id and f.version = h.version
		where h.inherited <> h.priority and not {leaving:f}
		for no key update of f skip locked) o
	where t.id = o.id)
select id, version, type, grp, coalesce(inherited, priority), ready_at, seq, shard, turn, state, next_event_at from h`

// inherited is the priority with which the head h of an ordering key is to run, if it inherits.
const inherited = `least({own:h}, (
	select b.priority from {task} b
	where b.ordering_key = h.ordering_key and {behind:b} and b.due_state is distinct from 1 and b.inherits and b.state = 2
	order by b.priority limit 1))`

// It goes from key to key and skips the rows within a key, but the first.
const selectHeadless = `
with recursive first as (
	(select b.ordering_key, b.state, b.ready_at, b.seq, 1::bigint as n from {task} b
	where {behind:b} and b.ordering_key > $1 order by b.ordering_key, b.ready_at, b.seq limit 1)
	union all
	select f.*, first.n + 1 from first cross join lateral (
		select b.ordering_key, b.state, b.ready_at, b.seq from {task} b
		where {behind:b} and b.ordering_key > first.ordering_key order by b.ordering_key, b.ready_at, b.seq limit 1) f
	where first.n < $2)
select first.n, first.ordering_key, first.state <> 1 and (h.id is null
	or h.state = 2 and h.started_at = {none} and first.state in (2, 5) and (first.ready_at, first.seq) < (h.ready_at, h.seq))
	or coalesce(case when h.state = 2 and h.inherits then h.priority <> {inherited} end, false)
from first left join {task} h on h.ordering_key = first.ordering_key and {head:h}
order by first.n`

// Of these rows, the first one of each key that has no head becomes its head.
const takeHead = `
update {task} t set turn = 2, queued = t.state = 2
from (
	select distinct on (f.ordering_key) f.id from unnest($1::uuid[]) with ordinality c (id, n) join {task} f on f.id = c.id
	where {behind:f} and not exists (select from {task} h where h.ordering_key = f.ordering_key and {head:h})
	order by f.ordering_key, c.n) o
where t.id = o.id
returning t.id`

// It goes from key to key. The number of a key counts the keys that are read.
const selectKeys = `
with recursive k as (
	select x.key, 1::bigint as n from (select {next}) x (key) where x.key is not null
	union all
	select x.key, k.n + 1 from k cross join lateral (select {following}) x (key) where x.key is not null and k.n < $2)
select k.n, k.key, f.ready_at, c.n, {narrow:t} from k
left join {task} t on t.ordering_key = k.key and {head:t}
left join lateral (
	select b.ready_at from {task} b where b.ordering_key = k.key and {behind:b}
	order by b.ready_at, b.seq limit 1) f on true
left join lateral (
	select count(*) as n from (select from {task} b where b.ordering_key = k.key and {behind:b} limit $3) b) c on true
where ($4::smallint[] is null or t.state = any($4)) or k.n = $2
order by k.n`

// The first key after another one of which rows are behind, and the first one that has a head.
const (
	nextBehind = `(select b.ordering_key from {task} b where {behind:b} and b.ordering_key > {after} order by b.ordering_key limit 1)`
	nextHead   = `(select h.ordering_key from {task} h where {head:h} and h.ordering_key > {after} order by h.ordering_key limit 1)`
)

// keysIn returns the statement for all keys, or for keys with rows behind.
func keysIn(fill func(string) string, behind bool) string {
	next := "least(" + nextBehind + ", " + nextHead + ")"
	if behind {
		next = nextBehind
	}
	from := func(after string) string { return strings.ReplaceAll(next, "{after}", after) }
	return fill(strings.NewReplacer("{next}", from("$1::bytea"), "{following}", from("k.key")).Replace(selectKeys))
}

const selectKey = `
(select {narrow:t} from {task} t where t.ordering_key = $1 and {head:t})
union all
(select {narrow:t} from {task} t where t.ordering_key = $1 and {behind:t} and (t.ready_at, t.seq) > ($2, $3)
order by t.ready_at, t.seq limit $4)`
