package task

import "strings"

// A group's values are joined by 0x1f, the unit separator; 0x1e escapes both.
const (
	groupSeparator = "\x1f"
	groupEscape    = "\x1e"
)

// GroupOf packs the values that a task has for its type's keyed limits, in the order
// of the limits, into its [Task.Group]. No values give "".
func GroupOf(values ...string) string {
	packed := make([]string, len(values))
	for i, v := range values {
		v = strings.ReplaceAll(v, groupEscape, groupEscape+"0")
		packed[i] = strings.ReplaceAll(v, groupSeparator, groupEscape+"1")
	}
	return strings.Join(packed, groupSeparator)
}

// GroupLen returns how many values a group has: "" has one, that is empty.
func GroupLen(group string) int { return strings.Count(group, groupSeparator) + 1 }

// GroupValues is the inverse of [GroupOf] for a type with n keyed limits. A group
// packed when the type had another number of them is cut, or filled up with "".
func GroupValues(group string, n int) []string {
	values := make([]string, n)
	for i, v := range strings.SplitN(group, groupSeparator, n+1) {
		if i == n {
			break
		}
		v = strings.ReplaceAll(v, groupEscape+"1", groupSeparator)
		values[i] = strings.ReplaceAll(v, groupEscape+"0", groupEscape)
	}
	return values
}
