//go:build !linux && !darwin

package machine

import "errors"

// DiskUsed returns an error: it is not implemented for this system.
func DiskUsed(string) (percent float64, err error) {
	return 0, errors.New("how full a disk is, is not known on this system")
}
