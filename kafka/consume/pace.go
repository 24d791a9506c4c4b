package consume

import "time"

// pace is how often a source does what no event asks for.
type pace struct {
	save      time.Duration // commits a position that has changed without a task
	renewal   time.Duration // see groupRenewal
	suspicion time.Duration // see suspects
	retryLook time.Duration // looks for topics after an error
	quick     time.Duration // waits for an answer about a topic before it is asked about apart
}

func defaultPace() pace {
	return pace{save: idleSave, renewal: groupRenewal, suspicion: suspicion, retryLook: retryLook, quick: quickTime}
}
