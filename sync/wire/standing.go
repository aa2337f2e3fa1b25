package wire

import (
	"errors"
	"fmt"

	"grattoir/validate"
)

// PathStanding takes what a terminal may pay, after central was put back from a backup:
// POST Standing -> StandingAnswer.
const PathStanding = "/v1/standing"

// Limits of one part of what a terminal tells. They fit MaxRequest.
const (
	MaxStandingRuns   = 80   // runs of packs
	MaxStandingPacks  = 1000 // packs of one run; a longer one is told as several
	MaxStandingClaims = 15   // permissions to pay
	MaxStandingHolds  = 60   // tickets that are held, and as many that were paid elsewhere
	MaxStandingBack   = 60   // claims that were given back
)

// Restored says that central's tables were put back, in the answer to a hello whose
// terminal has not told since what it may pay.
type Restored struct {
	Mark string `json:"mark"` // of this restore; Standing repeats it
	Feed int64  `json:"feed"` // newest feed item that was in the backup, 0 for not known
}

// Standing is what a terminal knows of its own rights: central knew it too, and has
// forgotten what is younger than the backup. It comes in parts, in any order, each as
// often as it takes; the one that is Last comes after all others were answered. All parts
// are of one moment.
type Standing struct {
	Protocol int    `json:"protocol"`
	Mark     string `json:"mark"`
	// Packs are the runs that the terminal owns and has not released: it pays them with no network.
	Packs []PackItem `json:"packs"`
	// Claims were allowed by central. They are not paid, or by an entry that central does not hold.
	Claims []Permission `json:"claims"`
	// Held are the tickets that it never again pays by itself, by feed items after Restored.Feed.
	Held []HoldAck `json:"held"`
	// Paid are the payments elsewhere that central has told it of, since whenever.
	Paid []PaidItem `json:"paid"`
	// Returned are the newest claims that it asked about and gave back, and central heard.
	Returned []ClaimKey `json:"returned,omitempty"`
	Last     bool       `json:"last"`
}

// ClaimKey names a claim that was asked about.
type ClaimKey struct {
	Claim  string           `json:"claim"`
	Block  validate.BlockID `json:"block"`
	Pack   uint32           `json:"pack"`
	Ticket uint16           `json:"ticket"`
	Round  int              `json:"round"`
}

// Permission is a claim that central allowed.
type Permission struct {
	ClaimRequest
	OwnerEpoch int64 `json:"owner_epoch"`
}

// StandingAnswer says that a part is stored, and how many of its permissions stand: those
// of the others central has allowed, or credited, to somebody else.
type StandingAnswer struct {
	Protocol int `json:"protocol"`
	Claims   int `json:"claims"`
}

// Check bounds a part.
func (s Standing) Check() error {
	if len(s.Mark) == 0 || len(s.Mark) > 64 || len(s.Packs) > MaxStandingRuns || len(s.Claims) > MaxStandingClaims || len(s.Held) > MaxStandingHolds || len(s.Paid) > MaxStandingHolds || len(s.Returned) > MaxStandingBack {
		return fmt.Errorf("%d runs of packs, %d claims, %d holds, %d payments, %d returned: want at most %d, %d, %d, %d, %d",
			len(s.Packs), len(s.Claims), len(s.Held), len(s.Paid), len(s.Returned), MaxStandingRuns, MaxStandingClaims, MaxStandingHolds, MaxStandingHolds, MaxStandingBack)
	}
	for _, c := range s.Returned {
		if c.Block == (validate.BlockID{}) || len(c.Claim) != 32 || c.Round < 0 {
			return errors.New("no whole claim that was given back")
		}
	}
	for _, p := range s.Paid {
		if p.Block == (validate.BlockID{}) || len(p.Terminal) > 64 || len(p.Number) > 64 || len(p.At) > 64 {
			return errors.New("no whole payment")
		}
	}
	for _, p := range s.Packs {
		if p.GameCode == "" || len(p.GameCode) > 16 || p.Last < p.First || p.Last-p.First >= MaxStandingPacks || p.Epoch < 1 {
			return errors.New("no whole run of packs")
		}
	}
	for _, c := range s.Claims {
		if err := c.Check(); err != nil || c.OwnerEpoch < 0 || c.Return {
			return errors.Join(errors.New("no claim that was allowed"), err)
		}
	}
	for _, h := range s.Held {
		if h.Hold < 1 || h.Block == (validate.BlockID{}) || h.Paid.Epoch < 0 || h.Paid.Seq < 0 || len(h.At) > 64 {
			return errors.New("no whole hold")
		}
	}
	return nil
}

// Parts cuts what a terminal has to tell into messages that keep to the limits; there is
// always one, and the last one says so.
func (s Standing) Parts() []Standing {
	var runs []PackItem
	for _, p := range s.Packs {
		for first := int64(p.First); first <= int64(p.Last); first += MaxStandingPacks {
			run := p
			run.First, run.Last = uint32(first), uint32(min(int64(p.Last), first+MaxStandingPacks-1))
			runs = append(runs, run)
		}
	}
	var parts []Standing
	for claims, held, paid, back := s.Claims, s.Held, s.Paid, s.Returned; ; {
		part := Standing{Protocol: s.Protocol, Mark: s.Mark}
		part.Packs, runs = cut(runs, MaxStandingRuns)
		part.Claims, claims = cut(claims, MaxStandingClaims)
		part.Held, held = cut(held, MaxStandingHolds)
		part.Paid, paid = cut(paid, MaxStandingHolds)
		part.Returned, back = cut(back, MaxStandingBack)
		part.Last = len(runs)+len(claims)+len(held)+len(paid)+len(back) == 0
		if parts = append(parts, part); part.Last {
			return parts
		}
	}
}

// cut gives the first n of a list, never null, and the rest.
func cut[T any](list []T, n int) (head, rest []T) {
	n = min(n, len(list))
	return append([]T{}, list[:n]...), list[n:]
}
