package client

import (
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Source is a source of tasks: topics of Apache Kafka with records that become tasks. Counts are sums over all
// nodes.
type Source struct {
	Name    string
	Topics  []string // either these are set, or Pattern is
	Pattern string
	Group   string // the consumer group that has the positions, for other programs

	Paused  *SourcePause // nil: it is not paused
	Orders  uint32       // requests that were accepted and are not carried out yet
	Problem string       // why it does not read all of its topics; empty if it does

	Lag            *uint64 // offsets between its positions and the ends of its partitions; nil: not known of all partitions
	PartitionCount uint32
	Reading        uint32 // partitions that a node reads at present

	Records    uint64 // that it has read
	Tasks      uint64 // that it has added
	Unreadable uint64 // records that could not become tasks
	Skipped    uint64 // records that the filter left out, or that had a task already
	Lost       uint64 // offsets of the lost ranges that the partitions keep

	Partitions []SourcePartition // by topic and number; not in lists
	TaskID     task.ID           // of the task that is the source
}

// SourcePause is a pause of a source.
type SourcePause struct {
	Since  time.Time
	Reason string
}

// SourcePartition is a partition that a source reads.
type SourcePartition struct {
	Topic     string
	Partition uint32
	Position  uint64  // the offset of the next record
	End       *uint64 // the offset behind the last record; nil: it is not known
	Lag       *uint64 // nil: it is not known
	Node      string  // that reads it; empty if none does
	Message   string  // why it is not read at present; empty if it is

	Records    uint64
	Tasks      uint64
	Unreadable uint64
	Skipped    uint64
	Lost       []SourceLoss // the newest ranges that it could not read

	TaskID task.ID // of the task that is the partition
}

// SourceLoss is a range of offsets that a source could not read, because the topic did not have them any more.
type SourceLoss struct {
	Begin  uint64 // the first offset
	End    uint64 // the offset behind the last one
	At     time.Time
	Reason string
}

// SourceSeek says where a source goes. One of Begin, End, Time and Offset is given.
type SourceSeek struct {
	Topic     string  // empty: all topics of the source
	Partition *uint32 // of Topic; nil: all partitions

	Begin  bool      // to the first record that there is
	End    bool      // behind the last record
	Time   time.Time // to the first record of this time or later
	Offset *uint64   // needs a topic and a partition
}

// SourceMove is the effect of a seek on a partition. If Target is less than Position, the source reads the offsets between
// them again; if it is more, it leaves them out.
type SourceMove struct {
	Topic     string
	Partition uint32
	Position  uint64 // before the seek
	Target    uint64 // the position after it
}

func (d *decoder) source(m *taskenginev1.Source) *Source {
	s := &Source{
		Name: m.GetName(), Topics: m.GetTopics(), Pattern: m.GetPattern(), Group: m.GetGroup(), Orders: m.GetOrders(), Problem: m.GetProblem(),
		PartitionCount: m.GetPartitionCount(), Reading: m.GetReading(), Records: m.GetRecords(), Tasks: m.GetTasks(),
		Unreadable: m.GetUnreadable(), Skipped: m.GetSkipped(), Lost: m.GetLost(),
		Partitions: all(m.GetPartitions(), d.partition), TaskID: d.id(m.GetTaskId()),
	}
	if m != nil {
		s.Lag = m.Lag
	}
	if p := m.GetPaused(); p != nil {
		s.Paused = &SourcePause{Since: timeOf(p.GetSince()), Reason: p.GetReason()}
	}
	return s
}

func (d *decoder) partition(m *taskenginev1.SourcePartition) SourcePartition {
	return SourcePartition{
		Topic: m.GetTopic(), Partition: m.GetPartition(), Position: m.GetPosition(), End: m.End, Lag: m.Lag, Node: m.GetNode(), Message: m.GetMessage(),
		Records: m.GetRecords(), Tasks: m.GetTasks(), Unreadable: m.GetUnreadable(), Skipped: m.GetSkipped(), Lost: all(m.GetLost(), lossOf),
		TaskID: d.id(m.GetTaskId()),
	}
}

func lossOf(m *taskenginev1.SourceLoss) SourceLoss {
	return SourceLoss{Begin: m.GetBegin(), End: m.GetEnd(), At: timeOf(m.GetAt()), Reason: m.GetReason()}
}

func moveOf(m *taskenginev1.SourceMove) SourceMove {
	return SourceMove{Topic: m.GetTopic(), Partition: m.GetPartition(), Position: m.GetPosition(), Target: m.GetTarget()}
}

func seekMessage(name string, s *SourceSeek, dryRun bool) *taskenginev1.SeekSourceRequest {
	m := &taskenginev1.SeekSourceRequest{Name: name, Topic: s.Topic, Partition: s.Partition, DryRun: dryRun}
	switch {
	case s.Begin:
		m.To = &taskenginev1.SeekSourceRequest_Begin{Begin: true}
	case s.End:
		m.To = &taskenginev1.SeekSourceRequest_End{End: true}
	case !s.Time.IsZero():
		m.To = &taskenginev1.SeekSourceRequest_Time{Time: stamp(s.Time)}
	case s.Offset != nil:
		m.To = &taskenginev1.SeekSourceRequest_Offset{Offset: *s.Offset}
	}
	return m
}

// targets returns how many of Begin, End, Time and Offset are given.
func (s *SourceSeek) targets() (n int) {
	for _, is := range [...]bool{s.Begin, s.End, !s.Time.IsZero(), s.Offset != nil} {
		if is {
			n++
		}
	}
	return n
}
