package flash

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Fault is what went wrong with an image, a drive or a card, by a code that a technician
// reads out by phone. terminalctl codes explains it.
type Fault struct {
	Code string // F1 ...; never renumbered
	On   string // the drive or the file that it is about
	Err  error  // what was seen
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s: %v", f.Code, f.On, f.Err) }
func (f *Fault) Unwrap() error { return f.Err }

// Refused tells whether a rule kept the card from being touched, and nothing failed.
func (f *Fault) Refused() bool {
	for _, m := range Meanings() {
		if m.Code == f.Code {
			return m.Refuses
		}
	}
	return false
}

// What to do is in hint, for whoever reads the error and not the table.
func (f *Fault) Hint() string {
	for _, m := range Meanings() {
		if m.Code == f.Code {
			return m.Hint
		}
	}
	return ""
}

func fault(code, on, format string, args ...any) *Fault {
	return &Fault{Code: code, On: on, Err: fmt.Errorf(format, args...)}
}

// Meaning is one row of the table of codes.
type Meaning struct {
	Code    string
	Name    string
	Text    string // what it means
	Hint    string // what to do
	Refuses bool   // a rule said no before anything was written
}

// The codes. A number is never given to another meaning.
const (
	codeUntrusted = "F1"
	codeDamaged   = "F2"
	codeNoDrive   = "F3"
	codeFixed     = "F4"
	codeSystem    = "F5"
	codeMounted   = "F6"
	codeReadOnly  = "F7"
	codeEmpty     = "F8"
	codeSmall     = "F9"
	codeBusy      = "F10"
	codeIO        = "F11"
	codeGone      = "F12"
	codeDiffers   = "F13"
	codeFake      = "F14"
	codeStalled   = "F15"
	codeWorn      = "F16"
	codeFull      = "F17"
	codeRights    = "F18"
	codeSlow      = "F19"
)

// Meanings is the table of codes, in order.
func Meanings() []Meaning {
	return []Meaning{
		{codeUntrusted, "image not trusted", "The image's manifest is missing, or not signed by a key that was named.", "Fetch the image, its .blockmap and its .manifest again, and name the lottery's public key.", true},
		{codeDamaged, "image damaged", "The image or its block map is not what the signed manifest says.", "Fetch both again: the copy is damaged or belongs to another release. The card is untouched where this was said before writing.", false},
		{codeNoDrive, "no such drive", "No removable drive has the serial that was given, or several have it.", "Run terminalctl flash list and type the serial as it stands there.", true},
		{codeFixed, "not removable", "The drive is built in, or a disk that is not made to be taken out.", "Put the card into a USB reader or an SD slot.", true},
		{codeSystem, "the system's own disk", "This machine runs or swaps from the drive.", "Take another drive: this one is never written.", true},
		{codeMounted, "mounted", "A file system of the drive is in use.", "Unmount it, or give --unmount.", true},
		{codeReadOnly, "read-only", "The drive takes no writing.", "Push the card's lock switch towards its contacts, or take another adapter. A worn-out card locks itself for good.", true},
		{codeEmpty, "no card", "The reader has no card in it, or cannot read it.", "Push the card in until it clicks.", true},
		{codeSmall, "too small", "The card is smaller than the image.", "Take a larger card.", true},
		{codeBusy, "in use", "Another program has the drive open for itself.", "Close other flashing and partitioning programs.", true},
		{codeIO, "reading or writing failed", "The drive answered with an error.", "Try another reader and port. If it comes again at the same place, throw the card away.", false},
		{codeGone, "pulled out", "The drive or its card was taken out, or lost its power.", "Put it back and give the same command: it goes on where it was. Do not use a hub without its own power.", false},
		{codeDiffers, "reads back differently", "What is read from the card is not what was written to it.", "Try once with another reader. If it comes again, throw the card away.", false},
		{codeFake, "fake capacity", "The card has less room than it says: what was written in one place is gone or found in another.", "Throw the card away, and tell whoever buys the cards.", false},
		{codeStalled, "no answer", "The drive has not answered for minutes.", "Pull it out, try another reader and port, and give the same command again.", false},
		{codeWorn, "worn", "The burn-in found places that do not keep what is written.", "Throw the card away.", false},
		{codeFull, "no room", "The disk on which the file or the drive lies is full.", "Free some room, then give the same command: it goes on where it was.", false},
		{codeRights, "not allowed", "This user may not open the drive.", "Run it as root (sudo), or as a member of the group that owns the drive.", false},
		{codeSlow, "slow", "The card is good, but slow in places or throughout.", "Use it on the bench, not in a shop.", false},
	}
}

// classify gives an error of the medium its code. One that has a code keeps it.
func classify(err error, on string, present bool) error {
	var coded *Fault
	if err == nil || errors.As(err, &coded) {
		return err
	}
	code := codeIO
	switch {
	case !present, errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOMEDIUM), errors.Is(err, unix.ESHUTDOWN):
		code = codeGone
	case errors.Is(err, unix.ENOSPC):
		code = codeFull
	case errors.Is(err, unix.EROFS):
		code = codeReadOnly
	case errors.Is(err, unix.EBUSY):
		code = codeBusy
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		code = codeRights
	}
	return &Fault{Code: code, On: on, Err: err}
}
