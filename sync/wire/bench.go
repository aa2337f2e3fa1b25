package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxBench bounds a bench record with its signature, in bytes.
const MaxBench = 32 << 10

// benchHeading begins the text that is signed, so that it is good for nothing else.
const benchHeading = "grattoir bench v1\n"

// Bench is what a terminal was found to be before it left the bench: each setting of its
// provisioning file as it was read back, the self-test, versions and serial numbers. The
// device's key signs it. It says what was seen there and then, and proves nothing of later.
type Bench struct {
	Terminal string            `json:"terminal"`
	At       string            `json:"at"` // device's clock, as FormatTime writes it
	OK       bool              `json:"ok"` // it left the bench in order
	Operator string            `json:"operator,omitempty"`
	Program  string            `json:"program"`
	Serial   int64             `json:"serial"` // of the provisioning file in force
	Mark     string            `json:"mark"`   // of that file
	Shop     string            `json:"shop,omitempty"`
	Parts    map[string]string `json:"parts"` // versions and serial numbers by name
	Checks   []BenchCheck      `json:"checks"`
}

// BenchCheck is one setting or one step of the self-test.
type BenchCheck struct {
	Code   string `json:"code"`
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn, fail or skipped
	Detail string `json:"detail"`
}

// BenchNote is a record as it travels and is kept: its exact text and the device's signature.
type BenchNote struct {
	Text      string `json:"text"`
	Signature []byte `json:"signature"` // ECDSA P-256 over SHA-256 of the text, ASN.1
}

// NewBench signs a record.
func NewBench(b Bench, sign func([]byte) ([]byte, error)) (BenchNote, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return BenchNote{}, err
	}
	n := BenchNote{Text: benchHeading + string(text) + "\n"}
	if n.Signature, err = sign([]byte(n.Text)); err != nil {
		return n, err
	}
	_, err = n.Open()
	return n, err
}

// Open reads the record. Who signed it is the caller's to verify. Fields that a later
// program adds are stepped over.
func (n BenchNote) Open() (Bench, error) {
	var b Bench
	body, ok := strings.CutPrefix(n.Text, benchHeading)
	if !ok || len(n.Text)+len(n.Signature) > MaxBench {
		return b, fmt.Errorf("bench record: %w", ErrText)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("bench record: %w: %w", ErrText, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return b, fmt.Errorf("bench record: %w: something follows it", ErrText)
	}
	if _, err := ParseTime(b.At); err != nil || b.Terminal == "" || len(b.Terminal) > 64 || len(b.Checks) > 100 || len(b.Parts) > 100 {
		return b, fmt.Errorf("bench record: %w: a terminal, a time, at most 100 checks and parts", ErrText)
	}
	return b, nil
}
