// Package place reads values of tasks and records at the places that configurations name.
package place

// Text returns a member of a JSON document as text: the value of a string, a number with all of its digits, or true or
// false. A member that is missing or null is "". An object or a list is an error, and so is a document that is no
// object. path has the names of the members from the outside to the inside, at least one.
func Text(document []byte, path []string) (string, error) {
	raw, err := at(document, path)
	if raw == nil || err != nil {
		return "", err
	}
	return scalar(raw)
}

// at returns a member of a JSON document, nil if it is missing.
func at(document []byte, path []string) ([]byte, error) {
	if err := check(document); err != nil {
		return nil, err
	}
	for _, name := range path {
		var err error
		if document, err = member(document, name); document == nil || err != nil {
			return nil, err
		}
	}
	return document, nil
}
