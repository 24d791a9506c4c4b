package consume

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// partition is the payload of the task that is a partition.
type partition struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id,omitempty"` // as kadm writes it; "" with brokers that have none
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // the first offset
}

// position is the checkpoint of the task that is a partition.
type position struct {
	Next    int64  `json:"next"`            // the offset of the next record
	Epoch   int32  `json:"epoch"`           // of the leader that had the record before; -1 if none is known
	Records uint64 `json:"records"`         // that were read
	Tasks   uint64 `json:"tasks"`           // that were added
	Unread  uint64 `json:"unread"`          // records that could not become tasks
	Skipped uint64 `json:"skipped"`         // records that the filter left out, or that had a task already
	Lost    []Lost `json:"lost,omitempty"`  // the newest maxLost
	Order   uint64 `json:"order,omitempty"` // the number of the last order that the position follows

	Missing time.Time `json:"missing,omitzero"` // since when the topic is missing
	Gone    bool      `json:"gone,omitempty"`   // it was missing for longer than by chance, and the loss with it is in Lost
}

// maxLost is how many ranges a position keeps.
const maxLost = 20

// Lost is a range of offsets that a source could not read, or that it has read and that the log does not have any more.
type Lost struct {
	From   int64     `json:"from"` // the first offset
	To     int64     `json:"to"`   // the offset behind the last one
	At     time.Time `json:"at"`   // when it was noticed
	Reason string    `json:"reason"`
}

func (p *position) lose(l Lost) {
	p.Lost = append(slices.Clone(p.Lost), l)
	p.Lost = p.Lost[max(0, len(p.Lost)-maxLost):]
}

func (p *position) encode() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has nothing that JSON lacks
	}
	return data
}

func (p *partition) encode() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has nothing that JSON lacks
	}
	return data
}

// decodePartition decodes the payload and the checkpoint of the task of a partition.
func decodePartition(payload, checkpoint []byte) (p partition, at position, err error) {
	if err = json.Unmarshal(payload, &p); err != nil {
		return p, at, fmt.Errorf("the partition cannot be read: %w", err)
	}
	at = position{Next: p.From, Epoch: -1}
	if len(checkpoint) == 0 {
		return p, at, nil
	}
	if err = json.Unmarshal(checkpoint, &at); err != nil {
		return p, at, fmt.Errorf("the position of %s/%d cannot be read: %w", p.Topic, p.Partition, err)
	}
	return p, at, nil
}
