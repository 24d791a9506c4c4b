//go:build !unix

package bench

import "errors"

func (r *records) mapped(string, int) (unmap func(), err error) {
	return nil, errors.New("this system cannot share memory with a node that is killed")
}
