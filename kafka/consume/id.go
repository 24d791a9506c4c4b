package consume

import (
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Prefixes of the types of a source, before its name.
const (
	typeOfSource = task.ReservedTypes + "source." // a source and its partitions
	typeOfUnread = task.ReservedTypes + "record." // records that could not become tasks
)

// TypeOf returns the type of the tasks that are a source and its partitions.
func TypeOf(source string) string { return typeOfSource + source }

// UnreadTypeOf returns the type of the tasks that are records of a source that could not become tasks.
func UnreadTypeOf(source string) string { return typeOfUnread + source }

// SourceOf returns the name of the source of a type, and whether the type is that of a source and its partitions.
func SourceOf(typ string) (string, bool) { return strings.CutPrefix(typ, typeOfSource) }

// idOfSource returns the id of the task that is a source.
func idOfSource(name string) task.ID { return task.ReservedID(typeOfSource, name) }

// idOfPartition returns the id of the task that is a partition. A topic that is deleted and created again is another topic.
func idOfPartition(source, topic, topicID string, partition int32) task.ID {
	return task.ReservedID(typeOfSource, source, topic, topicID, strconv.Itoa(int(partition)))
}

// sourcePolicy is the policy of the type of a source and its partitions.
func sourcePolicy() policy.Type {
	p := policy.DefaultType()
	p.Priority = task.HighestPriority
	p.Slotless = true
	p.MaxCrashes = 0
	p.Timeout = policy.Timeout{Grace: 10 * time.Second}
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2, Max: 15 * time.Second}}
	p.Retention = policy.Retention{Done: 30 * 24 * time.Hour, Failed: policy.Forever, Cancelled: policy.Forever}
	return p
}

// unreadPolicy is the policy of the type of the records that could not become tasks.
func unreadPolicy() policy.Type {
	p := policy.DefaultType()
	p.MaxPayload = maxUnread
	p.Retry.Max = 1
	p.Retention.Failed = 30 * 24 * time.Hour
	return p
}
