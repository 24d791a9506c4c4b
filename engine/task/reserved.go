package task

import "strings"

// ReservedTypes begins the names of types that belong to parts of the engine, such as that of schedules. Only their owners add
// tasks of them.
const ReservedTypes = "taskengine."

// IsReservedType reports whether a type belongs to a part of the engine.
func IsReservedType(typ string) bool { return strings.HasPrefix(typ, ReservedTypes) }

// IsReservedID reports whether an id is one of those that parts of the engine make of names: it begins with six zero bytes, as no
// generated id does. Only their owners give them to tasks.
func IsReservedID(id ID) bool { return !id.IsZero() && [6]byte(id[:6]) == [6]byte{} }
