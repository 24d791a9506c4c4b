package task

import "time"

// Request describes a task to add. Only Type is required. Package engine has the limits. Reserved types and ids are refused,
// see [IsReservedType] and [IsReservedID].
type Request struct {
	ID          ID                // chosen by the caller to make the request repeatable; zero for a generated one
	Type        string            // at most engine.MaxType bytes
	Payload     []byte            // at most max_payload of the type; stored unchanged
	Priority    *uint8            // HighestPriority..LowestPriority; nil for the priority of the type
	Key         string            // unique among the stored tasks of the type, of those with the same OrderingKey if it has one; at most engine.MaxKey bytes
	OrderingKey string            // tasks that share it run one at a time, in the order of their [Seat]; at most engine.MaxKey bytes
	At          time.Time         // earliest start, by the clock of Engine.Now; zero for now
	ExpiresAt   time.Time         // the task is too late from this time on; zero for never
	Headers     map[string]string // stored with the task; names and values have at most engine.MaxHeaders bytes
}
