package postgres

import "fmt"

// firsts are the statements at the begin of a transaction: plans in a transaction of the caller, settings in one of the store,
// by how it waits.
type firsts struct {
	plans    string
	settings [len(lockPatience)]string
}

// plans goes before the statements that every task goes through, for the time of their transaction.
// Their plans are made once, perhaps when the tables are still empty, and must be right later: by
// index, whatever the statistics say.
const plans = `
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// planBrowse goes before statements that may read whole tables. They are costly by the estimate of the planner, which does not know at which row they
// stop: to compile each of them takes longer than to run it.
const planBrowse = `select set_config('jit', 'off', true)`

// planStream goes before a list of which the server reads rows in the order of an index until the list is full: it does not sort all that it may read.
const planStream = `
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`

// planEntries goes before a statement that reads entries of indexes in their order, and few rows by their ids.
const planEntries = plans + `, set_config('enable_bitmapscan', 'off', true)`

// lockPatience is how long a transaction of the store waits for a lock, in milliseconds, by how it waits. The longest is
// longer than the default of deadlock_timeout, so that deadlocks are reported as such there.
var lockPatience = [...]int{directly: 2000, little: 250, least: 100, long: 2000, again: 20, whole: 2000}

// settingsFor returns the first statements of a transaction of the store.
func settingsFor(before string) (all [len(lockPatience)]string) {
	for i, patience := range lockPatience {
		all[i] = fmt.Sprintf("%s, set_config('lock_timeout', '%d', true)", before, patience)
	}
	return all
}

// keepSettings goes before plans, and restoreSettings after the statements, in a transaction of the
// caller.
const (
	keepSettings = `
select set_config('taskengine.' || name, current_setting(name), true)
from unnest(array['plan_cache_mode', 'jit', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin']) name`
	restoreSettings = `
select set_config(name, current_setting('taskengine.' || name), true)
from unnest(array['plan_cache_mode', 'jit', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin']) name`
)

// planSearch goes before a search: its plan depends on how frequent the values are, which a plan for any values does not know.
const planSearch = `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)`
