package exit

// Meaning is the meaning of an exit code, or of several.
type Meaning struct {
	Codes []int
	Text  string // without a full stop
}

// Meanings returns the meaning of every exit code, in their order. The help and docs/cli.md have these texts.
func Meanings() []Meaning {
	return []Meaning{
		{[]int{OK}, "ok"},
		{[]int{Failure}, "failure: the store cannot be opened, has failed or has errors; its tables are not as they should be; an upgrade would fail; a file that would be written is there already; a copy differs; a node is not ready; a file has invalid lines; or a task that was waited for did not end `done`"},
		{[]int{Usage}, "usage: the command line, or the request to the node, is invalid; for every command: an unknown flag, a missing flag or argument, an excess argument, a value that cannot be read, the short id of several tasks"},
		{[]int{Config}, "the configuration is invalid; every problem is reported with its place"},
		{[]int{NotFound}, "the task, the document, the limit, a task of the ordering key, the schedule, the source, the node, the worker, the bulk job, the token, the silence or the target of alerts does not exist, or nothing is set for the limit"},
		{[]int{Conflict}, "conflict: the task, the document or the setting of the limit has changed; or too many requests about the schedule or the source are pending"},
		{[]int{NotAllowed}, "not allowed: the state of the task, or of the head of the ordering key, does not allow the operation; the token is missing, not valid or lacks the role or the type; or the node has no alerts"},
		{[]int{Unavailable}, "the node cannot be reached, or is stopping; the brokers of a source do not answer; or the time is over"},
		{[]int{Backlog}, "the backlog of a type is full (`max_backlog`): the tasks were not added; add them again later"},
		{[]int{Late}, "the time of the task lies further in the past than `max_lateness` of its type allows: it was not added"},
		{[]int{Partial}, "the answer is printed, and may lack something: a node of the cluster did not answer; or an upgrade check could not look at something"},
		{[]int{Signal + interrupted, Signal + terminated}, "a node received a second SIGINT or SIGTERM and did not wait for its tasks; or a measurement, or a command on a store, was interrupted or terminated"},
	}
}

// The numbers of the signals that end commands, on every system.
const (
	interrupted = 2
	terminated  = 15
)
