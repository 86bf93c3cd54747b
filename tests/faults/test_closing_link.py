"""A connection of an event loop that is closed but has not been told so yet."""

from __future__ import annotations

import pytest

from tests.support import scripts
from tests.support.connections import LinkBroken, backend_for
from tests.support.world import Tasks


def test_a_link_that_refuses_because_it_is_closing_is_not_given_out_again(tasks: Tasks) -> None:
    async def given_out_again() -> bool:
        driver, _ = backend_for(None).of_loop()
        link = await driver.checkout()
        link._transport.close()
        with pytest.raises(LinkBroken):
            await link.call(scripts.RELEASE, ((b"index",), ("token",)))
        return await driver.checkout() is link

    assert not tasks.run(given_out_again())
