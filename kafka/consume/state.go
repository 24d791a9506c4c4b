package consume

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// state is the checkpoint of the task that is a source.
type state struct {
	Began   time.Time        `json:"began,omitzero"` // when its topics were listed for the first time
	Topics  map[string]topic `json:"topics,omitempty"`
	Paused  *Pause           `json:"paused,omitempty"`
	Orders  []order          `json:"orders,omitempty"` // not carried out, in ascending order of their numbers
	Last    uint64           `json:"last,omitempty"`   // the number of the last order
	Problem string           `json:"problem,omitempty"`
	// Late are the topics that were there when the source began, without a place to begin at: their partitions had no leader.
	Late []string `json:"late,omitempty"`
	Lost []lostOf `json:"lost,omitempty"` // with topics that were created again; the newest maxLostOf
}

// topic is a topic that a source reads.
type topic struct {
	ID         string   `json:"id,omitempty"`  // "" with brokers that have none
	Was        []former `json:"was,omitempty"` // deleted topics with its name, the newest last
	Partitions int32    `json:"partitions"`
	Ends       []int64  `json:"ends,omitempty"` // behind the last records, by partition, when the source last asked
}

// former is a topic that was deleted before another one of its name was created.
type former struct {
	ID   string  `json:"id"`
	Open int32   `json:"open,omitempty"` // its partitions, until their tasks have ended and the state has their losses
	Ends []int64 `json:"ends,omitempty"` // likewise; see topic
}

// lostOf is a range of a partition of a topic that was deleted.
type lostOf struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Lost
}

const (
	maxLostOf = 100
	maxEnds   = 10_000 // partitions of a source of which it notes the ends
)

// maxWas is how many deleted topics of a name are known. A broker that is not current names no older one.
const maxWas = 10

// Pause says who has paused a source.
type Pause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// order is what a person wants of a source.
type order struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	Pause  bool      `json:"pause,omitempty"`
	Resume bool      `json:"resume,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Seek   *Seek     `json:"seek,omitempty"`
}

// Seek says to which records a source goes.
type Seek struct {
	// Topic and Partition select a partition. Without a topic the source goes there in all partitions, and without a
	// partition in all of the topic.
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`

	// One of these is set.
	Begin  bool      `json:"begin,omitempty"`
	End    bool      `json:"end,omitempty"`
	Time   time.Time `json:"time,omitzero"` // the first record of this time or later
	Offset *int64    `json:"offset,omitempty"`
}

// selects reports whether s is about a partition.
func (s *Seek) selects(topic string, partition int32) bool {
	return (s.Topic == "" || s.Topic == topic) && (s.Partition == nil || *s.Partition == partition)
}

func (s *state) encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // it has nothing that JSON lacks
	}
	return data
}

func decodeState(checkpoint []byte) (s state, err error) {
	if len(checkpoint) > 0 {
		if err = json.Unmarshal(checkpoint, &s); err != nil {
			return s, fmt.Errorf("the state of the source cannot be read: %w", err)
		}
	}
	return s, nil
}

// superseded reports whether a topic of this name was created after that with this id was deleted.
func (s *state) superseded(name, id string) bool {
	return slices.ContainsFunc(s.Topics[name].Was, func(f former) bool { return f.ID == id })
}

// collects reports whether the loss with some deleted topics is not in s yet.
func (s *state) collects() bool {
	for _, t := range s.Topics {
		if slices.ContainsFunc(t.Was, func(f former) bool { return f.Open > 0 }) {
			return true
		}
	}
	return false
}

// end returns the offset behind the last record of a partition, as it was when the source last asked; 0 if it is not known.
func (s *state) end(of *partition) int64 {
	t := s.Topics[of.Topic]
	ends := t.Ends
	if t.ID != of.TopicID {
		ends = nil
	}
	for i := range t.Was {
		if t.Was[i].ID == of.TopicID {
			ends = t.Was[i].Ends
		}
	}
	if int(of.Partition) >= len(ends) {
		return 0
	}
	return ends[of.Partition]
}

// found returns what changes when a broker lists a topic: first is the first partition that is new, and isKnown reports
// whether the source has read a topic of this name before. There is nothing new if the broker names a topic that was
// deleted: it is not current.
func (s *state) found(name, id string, partitions int32) (now topic, first int32, isKnown bool) {
	was, isKnown := s.Topics[name]
	switch {
	case !isKnown:
		return topic{ID: id, Partitions: partitions}, 0, false
	case s.superseded(name, id):
		return was, was.Partitions, true
	case was.ID != "" && id != "" && was.ID != id:
		all := append(slices.Clone(was.Was), former{ID: was.ID, Open: was.Partitions, Ends: was.Ends})
		return topic{ID: id, Was: all[max(0, len(all)-maxWas):], Partitions: partitions}, 0, true
	}
	now = was
	now.Partitions = max(was.Partitions, partitions)
	return now, was.Partitions, true
}
