package flash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Record is the audit line of one card: who did what to which card, and what came of it.
type Record struct {
	At       time.Time `json:"at"` // by this machine's clock, UTC
	Program  string    `json:"program"`
	Operator string    `json:"operator"` // as the machine or the command line names them: nothing proves it
	Act      string    `json:"act"`      // write or verify
	Drive    string    `json:"drive"`    // the model, or the file
	Serial   string    `json:"serial"`
	Size     int64     `json:"size"`
	Image    string    `json:"image"` // name and version
	ID       string    `json:"image_id"`
	SHA256   string    `json:"image_sha256"` // of the raw image
	BurnIn   bool      `json:"burn_in"`
	Outcome  string    `json:"outcome"` // done, slow, stopped, or failed
	Code     string    `json:"code"`    // of the fault, "" for none
	Why      string    `json:"why"`
	Resumed  int64     `json:"resumed_bytes"`
	Written  int64     `json:"written_bytes"`
	Verified int64     `json:"verified_bytes"`
	Zeroed   int64     `json:"zeroed_bytes"`
	Seconds  float64   `json:"seconds"`
	Speed    int64     `json:"median_bytes_per_second"`
}

// Append adds the record to a file of JSON lines, durable when it returns. Several tools
// may append to one file at a time.
func (r Record) Append(path string) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
