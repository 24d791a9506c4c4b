package task

import "strings"

// A group's values are joined by 0x1f, the unit separator; 0x1e escapes both.
const (
	groupSeparator = "\x1f"
	groupEscape    = "\x1e"
)

// GroupOf packs the values of a task for the keyed limits of its type into a [Task.Group], in the
// order of the limits. Without values it returns "".
func GroupOf(values ...string) string {
	packed := make([]string, len(values))
	for i, v := range values {
		v = strings.ReplaceAll(v, groupEscape, groupEscape+"0")
		packed[i] = strings.ReplaceAll(v, groupSeparator, groupEscape+"1")
	}
	return strings.Join(packed, groupSeparator)
}

// GroupLen returns the number of values in a group. The group "" has one value, which is empty.
func GroupLen(group string) int { return strings.Count(group, groupSeparator) + 1 }

// GroupValues is the inverse of [GroupOf] for a type with n keyed limits. If the group was packed with
// another number of values, the result is cut, or padded with "".
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
