package task

import (
	"crypto/sha256"
	"strings"
)

// ReservedTypes begins the names of types that belong to parts of the engine, such as that of schedules. Only their owners add
// tasks of them.
const ReservedTypes = "taskengine."

// WorkflowType is the type of the tasks that are workflows, see package workflow. It is not reserved: anybody adds tasks of it.
const WorkflowType = ReservedTypes + "workflow"

// IsReservedType reports whether a type belongs to a part of the engine.
func IsReservedType(typ string) bool {
	return strings.HasPrefix(typ, ReservedTypes) && typ != WorkflowType
}

// IsReservedID reports whether an id is one that parts of the engine make of names: it begins with six zero bytes, as no
// generated id does. Only their owners give them to tasks.
func IsReservedID(id ID) bool { return !id.IsZero() && [6]byte(id[:6]) == [6]byte{} }

// ReservedID returns the reserved id that is made of names: the same for the same names, and another one for others. No name
// has a zero byte.
func ReservedID(names ...string) (id ID) {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[6:], sum[:])
	id[6] = 0x80 | id[6]&0x0f // UUID version 8
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// ReservedIDIn is ReservedID in a shard: the same names have another id in each.
func ReservedIDIn(shard uint16, names ...string) ID { return ReservedID(names...).in(shard) }
