package wire

import (
	"errors"
	"fmt"
	"strings"
)

// Paths of the software of terminals. Both are named by the SHA-256 of the bundle, which
// the signed snapshot lists as a Release.
const (
	PathUpdates = "/v1/updates/" // GET PathUpdates+SHA256 -> the update's signed manifest
	PathBundles = "/v1/bundles/" // GET PathBundles+SHA256, Range and If-Range
)

// Limits of an update, in bytes.
const (
	MaxUpdate = 96 << 10 // of its signed manifest
	MaxBundle = 1 << 30
)

// Offer is what central wants a terminal to install, in the answer to a hello: the release
// of that name and version in the snapshot, which is where its bytes are believed.
type Offer struct {
	Name    string `json:"name"` // the board's
	Version string `json:"version"`
}

// Software is what a terminal tells of its software, in hello.
type Software struct {
	Board   string `json:"board"` // the family of boards that it is of
	Version string `json:"version"`
	Number  int64  `json:"number"` // of the release that runs
	Floor   int64  `json:"floor"`  // nothing below it is ever booted again
	// Update is the newest update here, nil for none since the card was written.
	Update *UpdateState `json:"update,omitempty"`
}

// UpdateState is how far an update has come on a terminal.
type UpdateState struct {
	Version string     `json:"version"`
	Number  int64      `json:"number"`
	SHA256  string     `json:"sha256"` // of its bundle
	Step    UpdateStep `json:"step"`
	Reason  string     `json:"reason,omitempty"` // for people, at most MaxReason bytes
}

// UpdateStep is where an update stands. Central steps over one that it does not know.
type UpdateStep string

const (
	UpdateDownloading UpdateStep = "downloading"
	UpdateInstalling  UpdateStep = "installing"
	UpdateWaiting     UpdateStep = "waiting" // installed; the restart waits for an idle counter
	UpdateTrying      UpdateStep = "trying"  // it runs, and has not proven itself
	UpdateGood        UpdateStep = "good"
	UpdateRolledBack  UpdateStep = "rolled-back"
	UpdateFailed      UpdateStep = "failed"
	UpdateRefused     UpdateStep = "refused"
	UpdateWithdrawn   UpdateStep = "withdrawn"
)

// Ended tells whether nothing more comes of it by itself.
func (s UpdateStep) Ended() bool {
	switch s {
	case UpdateGood, UpdateRolledBack, UpdateFailed, UpdateRefused:
		return true
	}
	return false
}

// Check is nil for what central can keep.
func (s *Software) Check() error {
	if s == nil {
		return nil
	}
	texts := []string{s.Board, s.Version}
	if s.Number < 0 || s.Floor < 0 {
		return errors.New("a number of software is negative")
	}
	if u := s.Update; u != nil {
		if u.Number < 0 || u.SHA256 != "" && !isSHA256(u.SHA256) || len(u.Step) > 32 || strings.Trim(string(u.Step), "abcdefghijklmnopqrstuvwxyz-") != "" {
			return fmt.Errorf("the update %.40q has another form", u.Version)
		}
		if len(u.Reason) > MaxReason || strings.ContainsFunc(u.Reason, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("the reason of update %.40q: want at most %d printable bytes", u.Version, MaxReason)
		}
		texts = append(texts, u.Version)
	}
	for _, text := range texts {
		if len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%.40q of the software: want at most 64 printable characters", text)
		}
	}
	return nil
}
