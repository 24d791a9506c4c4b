package cli

import (
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The types below are part of the contract of -o json, like json.go.

type sourceJSON struct {
	Name           string                `json:"name"`
	TaskID         string                `json:"task_id"`
	Topics         []string              `json:"topics,omitempty"`
	Pattern        string                `json:"pattern,omitempty"`
	Group          string                `json:"group"`
	Paused         *schedulePauseJSON    `json:"paused,omitempty"`
	Orders         uint32                `json:"orders,omitempty"`
	Problem        string                `json:"problem,omitempty"`
	Lag            *uint64               `json:"lag,omitempty"`
	PartitionCount uint32                `json:"partition_count"`
	Reading        uint32                `json:"reading"`
	Records        uint64                `json:"records"`
	Tasks          uint64                `json:"tasks"`
	Unreadable     uint64                `json:"unreadable"`
	Skipped        uint64                `json:"skipped"`
	Lost           uint64                `json:"lost"`
	Partitions     []sourcePartitionJSON `json:"partitions,omitempty"`
}

type sourcePartitionJSON struct {
	Topic      string           `json:"topic"`
	Partition  uint32           `json:"partition"`
	Position   uint64           `json:"position"`
	End        *uint64          `json:"end,omitempty"`
	Lag        *uint64          `json:"lag,omitempty"`
	Node       string           `json:"node,omitempty"`
	Message    string           `json:"message,omitempty"`
	Records    uint64           `json:"records"`
	Tasks      uint64           `json:"tasks"`
	Unreadable uint64           `json:"unreadable"`
	Skipped    uint64           `json:"skipped"`
	Lost       []sourceLossJSON `json:"lost,omitempty"`
	TaskID     string           `json:"task_id"`
}

// sourceLossJSON is a range of offsets: End is behind the last one.
type sourceLossJSON struct {
	Begin  uint64     `json:"begin"`
	End    uint64     `json:"end"`
	At     *time.Time `json:"at"`
	Reason string     `json:"reason"`
}

type sourceMovesJSON struct {
	Name   string           `json:"name"`
	DryRun bool             `json:"dry_run,omitempty"`
	Moves  []sourceMoveJSON `json:"moves"`
}

type sourceMoveJSON struct {
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
	Position  uint64 `json:"position"`
	Target    uint64 `json:"target"`
}

func sourceToJSON(s *taskenginev1.Source) sourceJSON {
	j := sourceJSON{
		Name: s.GetName(), TaskID: s.GetTaskId(), Topics: s.GetTopics(), Pattern: s.GetPattern(), Group: s.GetGroup(), Orders: s.GetOrders(),
		Problem: s.GetProblem(), PartitionCount: s.GetPartitionCount(), Reading: s.GetReading(),
		Records: s.GetRecords(), Tasks: s.GetTasks(), Unreadable: s.GetUnreadable(), Skipped: s.GetSkipped(), Lost: s.GetLost(),
	}
	if s != nil {
		j.Lag = s.Lag
	}
	if p := s.GetPaused(); p != nil {
		j.Paused = &schedulePauseJSON{Since: timeToJSON(p.GetSince()), Reason: p.GetReason()}
	}
	for _, p := range s.GetPartitions() {
		one := sourcePartitionJSON{
			Topic: p.GetTopic(), Partition: p.GetPartition(), Position: p.GetPosition(), End: p.End, Lag: p.Lag, Node: p.GetNode(), Message: p.GetMessage(),
			Records: p.GetRecords(), Tasks: p.GetTasks(), Unreadable: p.GetUnreadable(), Skipped: p.GetSkipped(), TaskID: p.GetTaskId(),
		}
		for _, l := range p.GetLost() {
			one.Lost = append(one.Lost, sourceLossJSON{l.GetBegin(), l.GetEnd(), timeToJSON(l.GetAt()), l.GetReason()})
		}
		j.Partitions = append(j.Partitions, one)
	}
	return j
}

func movesToJSON(name string, moves []*taskenginev1.SourceMove, isDry bool) sourceMovesJSON {
	j := sourceMovesJSON{Name: name, DryRun: isDry, Moves: make([]sourceMoveJSON, len(moves))}
	for i, m := range moves {
		j.Moves[i] = sourceMoveJSON{m.GetTopic(), m.GetPartition(), m.GetPosition(), m.GetTarget()}
	}
	return j
}
