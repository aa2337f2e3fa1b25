package uplink

import (
	"context"
	"fmt"

	"grattoir/sync/wire"
)

// tell says what this terminal may pay to a central that was put back and has forgotten it.
// The parts are of one moment. What was told is asked for again at the next hello until
// central has its last part.
func (u *Uplink) tell(ctx context.Context, a wire.HelloAnswer) error {
	if a.Restored == nil {
		return nil
	}
	s, err := u.opt.Ledger.Standing(ctx, a.Acked, a.Restored.Feed)
	if err != nil {
		return err
	}
	s.Protocol, s.Mark = wire.Protocol, a.Restored.Mark
	stand := 0
	for _, part := range s.Parts() {
		var stored wire.StandingAnswer
		if err := u.client().post(ctx, wire.PathStanding, part, &stored); err != nil {
			return fmt.Errorf("tell central what may be paid here: %w", err)
		}
		stand += stored.Claims
	}
	u.opt.Log.Warn("central was put back from a backup and has heard what may be paid here", "restored", clip(a.Restored.Mark, 64), "packs", len(s.Packs), "claims", len(s.Claims), "stand", stand, "held", len(s.Held))
	return nil
}
