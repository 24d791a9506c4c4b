package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authorities returns the certificates of the authorities that Mozilla trusts, in PEM. Those that Mozilla trusts only under
// conditions are left out, because the format has no conditions.
func authorities() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if all.Len() == 0 {
		return nil, errors.New("the package of authorities is empty")
	}
	return all.Bytes(), nil
}
