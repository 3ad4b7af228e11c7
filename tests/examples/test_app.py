import app


def test_the_app_declares_three_views_of_payments():
    assert app.CardSpend.by == ("card",)
    assert app.MerchantFlow.by == ("merchant",)
    assert app.CardAbroad.by == ("card", "country")
    assert {view.streams[0] for view in (app.CardSpend, app.MerchantFlow, app.CardAbroad)} == {app.payments}


def test_outputs_are_named_after_the_attribute_and_its_window():
    assert {"payments_10m", "payments_1h", "payments_7d", "country_7d"} <= set(app.CardSpend.names)
