package units

import "fmt"

// WholeBytes writes a number of bytes as a whole number of at least ten KiB, MiB or GiB, such as
// "512 MiB". A smaller number is written in bytes.
func WholeBytes(n int64) string {
	const unit = 1024
	switch {
	case n >= 10*unit*unit*unit:
		return fmt.Sprintf("%d GiB", n/unit/unit/unit)
	case n >= 10*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	case n >= 10*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	}
	return fmt.Sprintf("%d bytes", n)
}
