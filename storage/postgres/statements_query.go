package postgres

const selectGet = `
select {narrow}, {heavy} from {task} where id = $1
union all
select {narrow}, {heavy} from {ended} where id = $1`

const selectGetAll = `
select {narrow}, {heavy} from {task} where id = any($1::uuid[])
union all
select {narrow}, {heavy} from {ended} where id = any($1::uuid[])`

const selectDue = `
select {trigger}, next_event_at from {task}
where due_state = $1 and due_at <= $2 and (due_at, id) > ($3, $4) and {mine:6}
order by due_at, id limit $5`

const selectDueRunning = `
select {trigger}, next_event_at from {task}
where state = $1 and next_event_at <> {none} and next_event_at <= $2 and (next_event_at, id) > ($3, $4) and {mine:6}
order by next_event_at, id limit $5`

const selectDueEnded = `
select {trigger}, next_event_at from {ended}
where state = $1 and next_event_at <> {none} and next_event_at <= $2 and (next_event_at, id) > ($3, $4) and {mine:6}
order by next_event_at, id limit $5`

const selectReady = `
select {trigger} from {task}
where queued and state = 2 and type = $1 and grp = $2 and (priority, ready_at, seq) > ($3, $4, $5)
order by priority, ready_at, seq limit $6`

// It goes from queue to queue and skips the rows within a queue.
const selectQueues = `
with recursive queue as (
	(select type, grp from {task} where queued {after} order by type, grp limit 1)
	union all
	select n.* from queue cross join lateral (
		select t.type, t.grp from {task} t where t.queued and (t.type, t.grp) > (queue.type, queue.grp)
		order by t.type, t.grp limit 1) n)
select type, grp from queue
where (select true from {task} t where t.queued and t.state = 2 and t.type = queue.type and t.grp = queue.grp limit 1)
limit $3`

// The first submitted row of each queue that is of the shards. A queue without such a row is in the
// answer, too: the next page goes on from it.
const selectUnclaimed = `
with recursive queue as (
	(select type, grp from {task} where queued {after} order by type, grp limit 1)
	union all
	select n.* from queue cross join lateral (
		select t.type, t.grp from {task} t where t.queued and (t.type, t.grp) > (queue.type, queue.grp)
		order by t.type, t.grp limit 1) n),
page as (select * from queue limit $4)
select page.type, page.grp, h.id, h.version, h.priority, h.ready_at, h.seq, h.shard, h.turn, h.next_event_at from page left join lateral (
	select * from (
		select * from {task} t where t.queued and t.type = page.type and t.grp = page.grp
		order by t.priority, t.ready_at, t.seq limit {deep}) first
	where state = 2 and {mine:3}
	order by priority, ready_at, seq limit 1) h on true`

// The answer has the rows that match, and the last row that was read. The number of rows read is
// bounded, however many rows of other shards and running rows are between the matches.
const selectSubmitted = `
select n, hit, {trigger}, next_event_at from (
	select row_number() over (order by type, grp, priority, ready_at, seq) as n, state = 2 and {mine:6} as hit, {trigger}, next_event_at
	from (select {trigger}, state, next_event_at from {task}
		where queued and (type, grp, priority, ready_at, seq) > ($1, $2, $3, $4, $5)
		order by type, grp, priority, ready_at, seq limit $7) part) numbered
where hit or n = $7
order by n`

// Likewise within a queue.
const selectSubmittedOf = `
select n, hit, {trigger}, next_event_at from (
	select row_number() over (order by priority, ready_at, seq) as n, state = 2 and {mine:6} as hit, {trigger}, next_event_at
	from (select {trigger}, state, next_event_at from {task}
		where queued and type = $1 and grp = $2 and (priority, ready_at, seq) > ($3, $4, $5)
		order by priority, ready_at, seq limit $7) part) numbered
where hit or n = $7
order by n`

// Likewise of rows with a time.
const selectDueOf = `
select n, hit, {trigger}, next_event_at from (
	select row_number() over (order by due_at, id) as n, {mine:6} as hit, {trigger}, next_event_at
	from (select {trigger}, next_event_at, due_at from {task}
		where due_state = $1 and due_at <= $2 and (due_at, id) > ($3, $4)
		order by due_at, id limit $5) part) numbered
where hit or n = $5
order by n`

// The answer has the rows that match, and the last row of the page.
const selectOrphans = `
with page as (select {narrow} from {task} where id > $1 order by id limit $2),
numbered as (
	select row_number() over (order by id) as n, state = 3 and (owner is null or not owner = any($3::uuid[])) as hit, *
	from page)
select n, hit, {narrow} from numbered
where hit or n = $2
order by n`

const selectOutdated = `
select c.n from unnest($1::uuid[], $2::bigint[]) with ordinality c (id, version, n)
where not exists (select from {task} t where t.id = c.id and t.version = c.version and t.state = 3 and t.owner = $3)`

// The answer has the rows that match, and the last two rows of the page. Its order is that of the window, so that the server stops reading at the
// limit: it does not know that n has that order. {most} is $5 + 2, or less if no more rows can match.
const selectList = `
with page as ({page}),
numbered as (
	select row_number() over (order by id desc) as n, state = any($3::smallint[]) and ($4::bytea[] is null or type = any($4)) and ($6::bytea is null or key = $6) as hit, *
	from page)
select n, hit, {narrow} from numbered
where hit or n >= $2
order by id desc limit {most}`

// noMore is a limit after which no rows match: the notes of the same moment say how many there are. {notes} is those of the rows that the page may have.
const noMore = `(
	select greatest(least(coalesce(sum(n), 0), $5 + 2), 0)::bigint from {notes} where state = any($3::smallint[]) and ($4::bytea[] is null or type = any($4)))`

// The rows of the states $3 and the types $4 by indexes that are in another order: {entries} has at most $7 + 1 entries of each. If there are more than $7 in
// all, the answer is one row, which says so.
const selectEntries = `
with entries as materialized ({entries}),
few as (select count(*) <= $7 as are from entries),
page as (
	select p.* from (
		select distinct id from entries
		where id < $1 and state = any($3::smallint[]) and ($4::bytea[] is null or type = any($4)) and (select are from few)
		order by id desc limit least($2::integer, $5) + 1) e
	join {task} p on p.id = e.id
	where $6::bytea is null or p.key = $6)
select few.are, {narrow} from few left join page on true
order by id desc`

// The entries of each index, in its order, so that no more are read.
const (
	entriesReady   = `(select id, state, type from {task} where queued order by type, grp, priority, ready_at, seq limit $7 + 1)`
	entriesReadyOf = `
	(select t.id, t.state, t.type from (select distinct one as of from unnest($4::bytea[]) as o (one)) k cross join lateral (
		select id, state, type from {task} t where t.queued and t.type = k.of order by t.grp, t.priority, t.ready_at, t.seq limit $7 + 1) t)`
	entriesBehind = `(select id, state, type from {task} where turn = 1 order by ordering_key, ready_at, seq limit $7 + 1)`
	entriesDue    = `(select id, state, type from {task} where due_state = 1 order by due_at, id limit $7 + 1)`
)

const pageAll = `
	(select {narrow} from {task} where id < $1 order by id desc limit $2 + 1)
	union all
	(select {narrow} from {ended} where id < $1 order by id desc limit $2 + 1)
	order by id desc limit $2 + 1`

const pageLive = `select {narrow} from {task} where id < $1 order by id desc limit $2 + 1`

const pageWorkflows = `
	(select {narrow} from {task} where {workflow} and id < $1 order by id desc limit $2 + 1)
	union all
	(select {narrow} from {ended} where {workflow} and id < $1 order by id desc limit $2 + 1)
	order by id desc limit $2 + 1`

const pageOpenWorkflows = `select {narrow} from {task} where {workflow} and id < $1 order by id desc limit $2 + 1`

const pageEndedWorkflows = `select {narrow} from {ended} where {workflow} and id < $1 order by id desc limit $2 + 1`

const pageErrors = `select {narrow} from {task} where due_state = 5 and id < $1 order by id desc limit $2 + 1`

// The rows of a type are in the order of its index alone, so that the planner takes no other, however many of the rows it expects to be of the type.
const pageErrorsOf = `
	select {narrow} from (select distinct one as of from unnest($4::bytea[]) as o (one)) k cross join lateral (
		select * from {task} t where t.due_state = 5 and t.type >= k.of and (t.type, t.id) < (k.of, $1) order by t.type desc, t.id desc limit $2 + 1) p
	order by id desc limit $2 + 1`

// The kinds in the ranges, each once, and the rows of each, likewise.
const pageKinds = `
	with recursive ranges as (
		select r.last, (select kind from {task} where kind >= r.first and kind <= r.last order by kind limit 1) as kind
		from unnest($7::bigint[], $8::bigint[]) as r (first, last)
		union
		select s.last, (select t.kind from {task} t where t.kind > s.kind and t.kind <= s.last order by t.kind limit 1) from ranges s
		where s.kind is not null)
	select {narrow} from (select distinct kind as of from ranges where kind is not null) k cross join lateral (
		select * from {task} t where t.kind >= k.of and (t.kind, t.id) < (k.of, $1) order by t.kind desc, t.id desc limit $2 + 1) p
	order by id desc limit $2 + 1`

// The rows with a value of each search set. {search} has a condition for each, and {kinds} one for the kinds of errors, of which rows
// are in the table task alone. {also} is searchEnded if tasks that have ended are searched.
const pageSearch = `
	select * from (
		(select {narrow} from {task} where id < $1 and id > $7 and {search} {kinds} order by id desc limit $2 + 1)
		{also}) p
	order by id desc limit $2 + 1`

const searchEnded = `
	union all
	(select {narrow} from {ended} where id < $1 and id > $7 and {search} order by id desc limit $2 + 1)`

// The rows that have the key $6, by the types of all keys. The parameters $3 and $4 serve selectList.
const pageKey = `
	with recursive types as (
		(select type from {key} order by type limit 1)
		union all
		select (select k.type from {key} k where k.type > t.type order by k.type limit 1) from types t where t.type is not null),
	holders as materialized (
		select k.id from types t join {key} k on k.type = t.type and k.key = $6
		where t.type is not null and ($4::bytea[] is null or t.type = any($4)))
	(select {narrow} from {task} where id = any(array(select id from holders)) and id < $1 order by id desc limit $2 + 1)
	union all
	(select {narrow} from {ended} where id = any(array(select id from holders)) and id < $1 order by id desc limit $2 + 1)
	order by id desc limit $2 + 1`

// The triggers that count tasks count those in error by the kinds of their errors, too.
const selectKinds = `
with counts as materialized (
	select kind, type, node, sum(n)::bigint as n from {tally_now}
	where kind is not null and ($1::bytea[] is null or type = any($1))
	group by kind, type, node having sum(n) > 0),
kinds as materialized (select kind, type from counts group by kind, type limit $2 + 1)
select k.kind, k.type, c.n, coalesce(c.node, ''), f.kind_at, l.kind_at, l.id, l.error
from kinds k join counts c on c.kind = k.kind and c.type = k.type
cross join lateral (select t.kind_at from {task} t where t.kind = k.kind and t.type = k.type order by t.kind_at limit 1) f
cross join lateral (select t.kind_at, t.id, t.error from {task} t where t.kind = k.kind and t.type = k.type order by t.kind_at desc, t.id desc limit 1) l
order by 1, 2`
